"""Requests of kazoo to the registry's server: nodes, multis, access control lists, what a client asks about itself."""

import asyncio
import hashlib
from base64 import b64encode

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.security import ACL, Id, make_acl, make_digest_acl

from registry.server import jute
from registry.server.codes import ErrorCode, OpCode
from registry.server.jute import JuteReader
from support.registry_client import create, delete, read

HASH = b64encode(hashlib.sha1(b"alice:secret").digest()).decode()


@pytest.fixture
async def kazoo(server):
    """Run a function with a started kazoo client in a thread."""
    clients = []

    async def run(function, **options):
        def work():
            client = KazooClient(f"127.0.0.1:{server.port}", **options)
            clients.append(client)
            client.start()
            return function(client)

        return await asyncio.to_thread(work)

    yield run
    for client in clients:
        await asyncio.to_thread(client.stop)
        client.close()


async def test_the_life_of_a_node(kazoo):
    def life(client):
        path, stat = client.create("/a/b", b"1", makepath=True, include_data=True)
        assert (path, stat.version, stat.dataLength, stat.ephemeralOwner) == ("/a/b", 0, 1, 0)
        assert client.set("/a/b", b"22", version=0).version == 1
        data, stat = client.get("/a/b")
        assert (data, stat.version, stat.data_length) == (b"22", 1, 2)
        children, stat = client.get_children("/a", include_data=True)
        assert (children, stat.numChildren, stat.cversion) == (["b"], 1, 1)
        for error, request in (
            (NodeExistsError, lambda: client.create("/a")),
            (NoNodeError, lambda: client.create("/x/y")),
            (BadVersionError, lambda: client.delete("/a/b", version=0)),
            (NotEmptyError, lambda: client.delete("/a")),
        ):
            with pytest.raises(error):
                request()
        client.delete("/a/b", version=1)
        assert client.exists("/a/b") is None
        assert client.sync("/a") == "/a"

    await kazoo(life)


async def test_ephemeral_and_sequential_nodes(kazoo):
    def first(client):
        client.create("/a")
        paths = [client.create("/a/n-", ephemeral=True, sequence=True) for _ in range(3)]
        assert paths == [f"/a/n-000000000{number}" for number in range(3)]
        assert client.get(paths[0])[1].owner_session_id == client.client_id[0]
        client.stop()

    await kazoo(first)
    assert await kazoo(lambda client: client.get_children("/a")) == []


async def test_a_multi_is_applied_as_a_whole_or_not_at_all(kazoo):
    def multi(client):
        client.create("/a")
        good = client.transaction()
        good.create("/a/b", b"1")
        good.set_data("/a/b", b"2", version=0)
        good.check("/a/b", version=1)
        good.delete("/a/b")
        path, stat, checked, deleted = good.commit()
        assert (path, stat.version, checked, deleted) == ("/a/b", 1, True, True)
        bad = client.transaction()
        bad.create("/a/c")
        bad.check("/a", version=7)
        bad.create("/a/d")
        assert list(map(type, bad.commit())) == [RolledBackError, BadVersionError, RuntimeInconsistency]
        assert client.get_children("/a") == []

    await kazoo(multi)


async def test_a_path_in_a_multi_that_is_not_possible(client):
    header = jute.int32(OpCode.CREATE) + b"\0" + jute.int32(-1)
    body = header + create("/a") + header + create("/b/") + jute.int32(-1) + b"\1" + jute.int32(-1)
    reply = await client.ask(OpCode.MULTI, body)
    codes = [_multi_error(reply.body) for _ in range(2)]
    assert codes == [ErrorCode.OK, ErrorCode.BAD_ARGUMENTS]
    assert not await client.exists("/a")


def _multi_error(reader: JuteReader) -> int:
    """Read one result of a multi, which is an error."""
    assert (reader.int32(), reader.boolean()) == (OpCode.ERROR, False)
    code = reader.int32()
    assert reader.int32() == code
    return code


async def test_a_multi_of_reads_answers_each(client):
    await client.create("/a", b"1")
    headers = [jute.int32(code) + b"\0" + jute.int32(-1) for code in (OpCode.GET_DATA, OpCode.GET_CHILDREN)]
    body = headers[0] + read("/a") + headers[0] + read("/none") + headers[1] + read("/")
    reply = await client.ask(OpCode.MULTI_READ, body + jute.int32(-1) + b"\1" + jute.int32(-1))
    assert reply.error == ErrorCode.OK
    answer = reply.body
    assert (answer.int32(), answer.boolean(), answer.int32(), answer.buffer()) == (OpCode.GET_DATA, False, 0, b"1")
    _ = [answer.int64() for _ in range(8)], answer.int32()  # the stat
    assert _multi_error(answer) == ErrorCode.NO_NODE
    assert (answer.int32(), answer.boolean(), answer.int32()) == (OpCode.GET_CHILDREN, False, 0)
    assert answer.vector(answer.string) == ["a"]


MULTI_END = jute.int32(-1) + b"\1" + jute.int32(-1)


def in_multi(opcode, body):
    return jute.int32(opcode) + b"\0" + jute.int32(-1) + body


async def test_the_answer_of_a_multi_of_reads_has_a_limit(client):
    await client.create("/a", bytes(1_000_000))
    one = in_multi(OpCode.GET_DATA, read("/a"))
    assert (await client.ask(OpCode.MULTI_READ, one * 4 + MULTI_END)).error == ErrorCode.OK
    assert (await client.ask(OpCode.MULTI_READ, one * 5 + MULTI_END)).error == ErrorCode.BAD_ARGUMENTS


@pytest.mark.parametrize(
    ("multi", "one"),
    [
        (OpCode.MULTI, in_multi(OpCode.CHECK, delete("/"))),
        (OpCode.MULTI_READ, in_multi(OpCode.GET_DATA, read("/"))),
    ],
    ids=["writes", "reads"],
)
async def test_the_number_of_operations_in_a_multi_has_a_limit(client, multi, one):
    assert (await client.ask(multi, one * 10_000 + MULTI_END)).error == ErrorCode.OK
    assert (await client.ask(multi, one * 10_001 + MULTI_END)).error == ErrorCode.BAD_ARGUMENTS


async def test_a_multi_that_deletes_what_it_has_created(client, server):
    """The answer to create2 has the stat of that moment."""
    made = in_multi(OpCode.CREATE2, create("/a", b"data")) + in_multi(OpCode.DELETE, delete("/a"))
    zxid = server.store.tree.zxid
    answer = (await client.ask(OpCode.MULTI, made + in_multi(OpCode.CREATE, create("/b")) + MULTI_END)).body
    assert (answer.int32(), answer.boolean(), answer.int32()) == (OpCode.CREATE2, False, 0)
    assert (answer.string(), answer.int64()) == ("/a", zxid + 1)
    assert server.store.tree.zxid == zxid + 1
    assert await client.exists("/b")


async def test_a_node_for_one_user(kazoo):
    mine = make_digest_acl("alice", "secret", all=True)

    def alice(client):
        client.add_auth("digest", "alice:secret")
        client.create("/mine", b"1", acl=[mine])
        assert client.get_acls("/mine")[0] == [ACL(31, Id("digest", f"alice:{HASH}"))]

    def bob(client):
        client.add_auth("digest", "bob:secret")
        for request in (
            lambda: client.get("/mine"),
            lambda: client.set("/mine", b"2"),
            lambda: client.get_children("/mine"),
            lambda: client.create("/mine/a"),
            lambda: client.get_acls("/mine"),
            lambda: client.set_acls("/mine", [make_acl("world", "anyone", all=True)]),
        ):
            with pytest.raises(NoAuthError):
                request()
        assert client.exists("/mine").dataLength == 1

    await kazoo(alice)
    await kazoo(bob)
    with_password = {"auth_data": [("digest", "alice:secret")]}
    assert (await kazoo(lambda client: client.get("/mine")[0], **with_password)) == b"1"


async def test_the_hash_of_a_password_is_shown_to_administrators_only(kazoo):
    acl = [make_digest_acl("alice", "secret", all=True), make_acl("world", "anyone", read=True)]
    await kazoo(lambda client: client.create("/shown", acl=acl))
    shown = await kazoo(lambda client: client.get_acls("/shown")[0])
    assert [entry.id.id for entry in shown] == ["alice:x", "anyone"]


async def test_the_scheme_auth_is_who_the_client_is(kazoo):
    def work(client):
        with pytest.raises(InvalidACLError):
            client.create("/a", acl=[make_acl("auth", "", all=True)])
        client.add_auth("digest", "alice:secret")
        client.create("/a", acl=[make_acl("auth", "", all=True)])
        return client.get_acls("/a")[0]

    assert await kazoo(work) == [ACL(31, Id("digest", f"alice:{HASH}"))]


async def test_an_address_is_an_identity(kazoo):
    def work(client):
        client.create("/here", acl=[make_acl("ip", "127.0.0.0/8", all=True)])
        client.create("/there", acl=[make_acl("ip", "10.1.2.3", all=True)])
        assert client.get("/here")[0] == b""
        with pytest.raises(NoAuthError):
            client.get("/there")

    await kazoo(work)


async def test_an_unknown_scheme_of_an_auth_packet_ends_the_connection(kazoo, client):
    def work(client):
        with pytest.raises(AuthFailedError):
            client.add_auth("kerberos", "alice")

    await kazoo(work)
    client.send(OpCode.AUTH, jute.int32(0) + jute.string("digest") + jute.buffer(b"no colon"), xid=-4)
    reply = await client.reply()
    assert (reply.xid, reply.error) == (-4, ErrorCode.AUTH_FAILED)
    assert await client.is_closed()


@pytest.mark.parametrize("user", [b"two\nlines", b"nul\0", b"\xc2\x85"])
async def test_a_user_with_control_characters_is_refused(client, user):
    client.send(OpCode.AUTH, jute.int32(0) + jute.string("digest") + jute.buffer(user + b":secret"))
    assert (await client.reply()).error == ErrorCode.AUTH_FAILED
    assert await client.is_closed()


async def test_what_a_client_asks_about_itself(client):
    await client.ask(OpCode.AUTH, jute.int32(0) + jute.string("digest") + jute.buffer(b"alice:secret"))
    who = (await client.ask(OpCode.WHO_AM_I)).body
    assert who.vector(lambda: (who.string(), who.string())) == [("ip", "127.0.0.1"), ("digest", "alice")]
    await client.create("/a")
    for path in ("/a/x", "/a/y", "/e"):
        await client.create(path, flags=1)
    ephemerals = (await client.ask(OpCode.GET_EPHEMERALS, jute.string("/a"))).body
    assert ephemerals.vector(ephemerals.string) == ["/a/x", "/a/y"]
    for path in ("/a/p", "/a/p/q"):
        await client.create(path)
    counts = {
        path: (await client.ask(OpCode.GET_ALL_CHILDREN_NUMBER, jute.string(path))).body.int32()
        for path in ("/", "/a", "/a/p", "/a/x")
    }
    assert counts == {"/": 6, "/a": 4, "/a/p": 1, "/a/x": 0}
