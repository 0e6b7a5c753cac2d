"""Memory of Spark's driver while it reads 1 and 10 million records of 100 B: `python -m benchmarks.spark_memory`.

The highest resident sizes, in MB, of this process, which is the driver's Python, and of the JVM, which on local[2] is
driver and executor in one. Nothing is collected on the driver, so they do not grow with the rows.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from benchmarks.server import ROOT
from client.admin.admin import Admin
from client.producer.producer import Producer

sys.path.append(str(ROOT / "tests"))

MILLIONS = (1, 10)
AT_ONCE = 50_000


async def fill(servers: str, topic: str, count: int) -> None:
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=2)
    async with Producer(bootstrap_servers=servers, batch_size=256 * 1024) as producer:
        for part in range(count // AT_ONCE):
            await producer.send_columns(topic, [b"x" * 100] * AT_ONCE, partition=part % 2)
        await producer.flush()


class Peak(threading.Thread):
    """The highest resident sizes until it is stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = {"python": 0, "java": 0}
        self._stopped = threading.Event()

    def run(self) -> None:
        driver = psutil.Process()
        java = next(one for one in driver.children(recursive=True) if one.name() == "java")
        while not self._stopped.wait(0.1):
            for name, process in (("python", driver), ("java", java)):
                self.bytes[name] = max(self.bytes[name], process.memory_info().rss)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def main() -> None:
    from support.broker import broker_process
    from support.spark import start_session

    with tempfile.TemporaryDirectory() as folder, broker_process(Path(folder) / "broker") as broker:
        for millions in MILLIONS:
            asyncio.run(fill(broker.bootstrap, f"m{millions}", millions * 1_000_000))
        spark = start_session(Path(folder))
        reader = spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap)
        for millions in (MILLIONS[0], *MILLIONS):  # the first query starts everything
            peak, began = Peak(), time.monotonic()
            peak.start()
            reader.option("subscribe", f"m{millions}").load().write.format("noop").mode("overwrite").save()
            took_s = time.monotonic() - began
            peak.stop()
            sizes = ", ".join(f"{name} {size / 2**20:.0f} MB" for name, size in peak.bytes.items())
            print(f"{millions} million rows: {took_s:.1f} s, {sizes}")
        spark.stop()


if __name__ == "__main__":
    main()
