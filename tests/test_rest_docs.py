"""docs/rest.md: its examples do what the page shows."""

import asyncio
import os
import re

from ottla import testing
from support.broker import ROOT
from support.doc_scripts import console_examples, dead_links
from support.polling import until
from support.programs import need_curl
from support.rest import rest_api

PAGE = ROOT / "docs" / "rest.md"


async def test_the_examples():
    need_curl()
    examples = console_examples(PAGE.read_text())
    assert len(examples) == 5
    with testing.broker() as broker:
        async with rest_api(broker.bootstrap_servers) as rest:
            for command, expected in examples:
                shown = re.sub(r"^[\w-]{22}\n$", rest.cluster_id + "\n", expected)
                assert await run(command.replace("http://127.0.0.1:8082", rest.url), rest.cluster_id) == shown
                if "topic_name" in command:
                    await until(lambda: has_orders(rest), "the topic is there")


async def has_orders(rest):
    return (await rest.ask("GET", "topics/orders/partitions/0")).status == 200


async def run(command, cluster_id):
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", command, stdout=asyncio.subprocess.PIPE, env=os.environ | {"CLUSTER": cluster_id}
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


def test_the_links():
    assert dead_links(PAGE) == []
