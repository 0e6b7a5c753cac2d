"""Topics of a broker for tests of the Spark connector: filled, changed and deleted by calls that wait."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from client.admin.admin import Admin
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.broker import BrokerProcess
from support.polling import until

_names = itertools.count()


class Topics:
    """Operations of tests on the topics of one broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker

    @property
    def options(self) -> dict[str, str]:
        """The options that every query needs."""
        return {"kafka.bootstrap.servers": self.broker.bootstrap}

    def create(self, partitions: int = 1, *, name: str | None = None, **configs: str) -> str:
        """Create a topic with a unique name. Settings have _ for each dot in their names."""
        topic = name or f"topic{next(_names)}"
        named = {setting.replace("_", "."): value for setting, value in configs.items()}
        self.admin(lambda admin: admin.create_topic(topic, partitions, 1, configs=named))
        return topic

    def admin(self, action: Callable[[Admin], Coroutine[Any, Any, Any]]) -> Any:
        """Run something with an admin client."""

        async def run() -> Any:
            async with Admin(bootstrap_servers=self.broker.bootstrap) as admin:
                return await action(admin)

        return asyncio.run(run())

    def fill(self, topic: str, *values: str, partition: int = 0, first_ms: int | None = None, **options: Any) -> None:
        """Write records one after another; `first_ms` is the first one's time, each next one's is a second later."""

        async def run() -> None:
            async with Producer(bootstrap_servers=self.broker.bootstrap, linger_ms=0, **options) as producer:
                for at, value in enumerate(values):
                    time_ms = None if first_ms is None else first_ms + 1000 * at
                    await producer.send(topic, value.encode(), partition=partition, timestamp_ms=time_ms)

        asyncio.run(run())

    def number(self, topic: str, count: int, partition: int = 0) -> None:
        """Write "0", "1", … in batches."""

        async def run() -> None:
            async with Producer(bootstrap_servers=self.broker.bootstrap) as producer:
                for number in range(count):
                    producer.send_nowait(topic, b"%d" % number, partition=partition)
                await producer.flush()

        asyncio.run(run())

    def cut(self, topic: str, offset: int, partition: int = 0) -> None:
        """Delete the records before an offset."""
        self.admin(lambda admin: admin.delete_records({TopicPartition(topic, partition): offset}))

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until the broker does not know it."""

        async def run(admin: Admin) -> None:
            await admin.delete_topic(topic)

            async def is_gone() -> bool:
                return topic not in await admin.describe_topics()

            await until(is_gone, f"{topic} is deleted")

        self.admin(run)

    def end(self, topic: str, partition: int = 0) -> int:
        """The high watermark."""
        name = TopicPartition(topic, partition)
        found = self.admin(lambda admin: admin.list_offsets({name: -1}))
        return int(found[name].offset)


_NO_WORKER = "Python worker failed to connect back"
_STARTS = 5  # that are tried for one run


class Stream:
    """A query with Trigger.AvailableNow, run once or several times on one checkpoint; it keeps what it was given."""

    def __init__(self, frame: Callable[[], DataFrame], checkpoint: str) -> None:
        self._frame = frame
        self._checkpoint = checkpoint
        self.batches: list[list[str]] = []
        """The values of each batch, sorted."""
        self.progress: list[Any] = []

    def run(self) -> list[list[str]]:
        """Read the existing records. Return the batches of this run."""
        before = len(self.batches)
        for attempt in range(1, _STARTS + 1):
            try:
                self._run_once()
                break
            except StreamingQueryException as error:
                # Spark gives the Python process of a source ten seconds to start, which no setting changes.
                if _NO_WORKER not in str(error) or len(self.batches) > before or attempt == _STARTS:
                    raise
        return self.batches[before:]

    def _run_once(self) -> None:
        writer = self._frame().writeStream.foreachBatch(self._take).option("checkpointLocation", self._checkpoint)
        query = writer.trigger(availableNow=True).start()
        with contextlib.ExitStack() as stack:
            stack.callback(query.stop)
            query.awaitTermination()
        self.progress += query.recentProgress

    def _take(self, frame: DataFrame, _: int) -> None:
        self.batches.append(sorted(row.value.decode() for row in frame.select("value").collect()))


def values(frame: DataFrame) -> list[str]:
    """The values of a frame, sorted."""
    return sorted(row.value.decode() for row in frame.select("value").collect())


def flat(batches: Sequence[Sequence[str]]) -> list[str]:
    """The values of all batches, sorted."""
    return sorted(itertools.chain.from_iterable(batches))
