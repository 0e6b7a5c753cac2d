"""The example of docs/zookeeper-consumer.md runs and prints what stands there; its options are the consumer's."""

import asyncio
import inspect
import re

from client.admin.admin import Admin
from client.zookeeper.consumer import ZooKeeperConsumer
from support.broker import ROOT, running_broker
from support.doc_scripts import SECURITY_OPTIONS, run_script
from support.zookeeper import new_chroot, shared_zookeeper

PAGE = (ROOT / "docs" / "zookeeper-consumer.md").read_text()


async def test_the_example(tmp_path):
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    script = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    printed = re.search(r"It prints:\n\n```\n(.*?)```", PAGE, re.DOTALL)[1]
    async with running_broker(tmp_path / "data", zookeeper_connect=connect) as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic("orders", partitions=1, replication_factor=1)
        script = script.replace("127.0.0.1:2181", connect)
        assert await asyncio.to_thread(run_script, script, broker.bootstrap_servers, tmp_path) == printed


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
    assert told == options - {"network", "random"} - SECURITY_OPTIONS
