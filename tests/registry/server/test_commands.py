"""The commands of four letters of the registry's server."""

import asyncio

import pytest
from kazoo.client import KazooClient

from support.registry_client import RawClient


async def command(server, word):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(word)
    answer = await reader.read()
    writer.close()
    return answer.decode()


@pytest.mark.parametrize(("word", "answer"), [(b"ruok", "imok"), (b"isro", "rw")])
async def test_short_answers(server, word, answer):
    assert await command(server, word) == answer


async def test_stat_lists_the_clients(server, client):
    await client.exists("/a")
    host, port = client.writer.get_extra_info("sockname")
    text = await command(server, b"stat")
    assert f" /{host}:{port}[1](queued=0,recved=2,sent=2)\n" in text
    assert "Mode: standalone\nNode count: 1\n" in text


async def test_srvr_is_stat_without_the_clients(server, client):
    text = await command(server, b"srvr")
    assert text.startswith("Zookeeper version: 3.9.")
    assert "Clients" not in text


async def test_mntr_counts(server, client):
    await client.create("/a")
    await client.create("/a/e", b"1234", flags=1)
    await client.exists("/a", watch=True)
    values = dict(line.split("\t") for line in (await command(server, b"mntr")).splitlines())
    assert {name: values[name] for name in ("zk_znode_count", "zk_ephemerals_count", "zk_watch_count")} == {
        "zk_znode_count": "3",
        "zk_ephemerals_count": "1",
        "zk_watch_count": "1",
    }
    assert int(values["zk_approximate_data_size"]) == len("/") + len("/a") + len("/a/e") + 4
    assert values["zk_server_state"] == "standalone"


async def test_kazoo_reads_the_version(server):
    def version():
        client = KazooClient(f"127.0.0.1:{server.port}")
        client.start()
        try:
            return client.server_version()
        finally:
            client.stop()
            client.close()

    assert await asyncio.to_thread(version) == (3, 9, 0)


async def test_a_word_that_is_no_command_is_a_frame_that_is_too_long(dial):
    stranger: RawClient = await dial()
    stranger.writer.write(b"help")
    assert await stranger.is_closed()
