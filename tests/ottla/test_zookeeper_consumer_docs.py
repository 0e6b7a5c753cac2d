"""The example of docs/zookeeper-consumer.md runs and prints what stands there; its options are the consumer's."""

import asyncio
import inspect
import os
import re
import subprocess
import sys

from client.admin import Admin
from client.zookeeper_consumer import ZooKeeperConsumer
from support.broker import ROOT, running_broker
from support.zookeeper import new_chroot, shared_zookeeper

PAGE = (ROOT / "docs" / "zookeeper-consumer.md").read_text()


async def test_the_example(tmp_path):
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    script = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    printed = re.search(r"It prints:\n\n```\n(.*?)```", PAGE, re.DOTALL)[1]
    async with running_broker(tmp_path / "data", zookeeper_connect=connect) as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic("orders", partitions=1, replication_factor=1)
        file = tmp_path / "example.py"
        file.write_text(script.replace("127.0.0.1:9092", broker.bootstrap_servers).replace("127.0.0.1:2181", connect))
        printed_now = await run(file, tmp_path)
    assert printed_now == printed


async def run(file, cwd):
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(file)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_option_is_told():
    table = PAGE[PAGE.index("## Options") : PAGE.index("## What the coordinator")]
    told = {
        name
        for row in table.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    options = {
        name
        for name, parameter in inspect.signature(ZooKeeperConsumer).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert told == options - {"network", "random"}
