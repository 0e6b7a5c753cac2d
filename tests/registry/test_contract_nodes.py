"""The registry's contract: nodes, versions, ephemerals, sequences, multis, ACLs; for every backend."""

import asyncio

import pytest

from registry.errors import (
    BadArgumentsError,
    BadVersionError,
    DataTooLargeError,
    InvalidAclError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistencyError,
)
from registry.interface import OPEN_ACL, Acl, Check, Create, Delete, Permission, Set


async def test_create_and_get(registry):
    assert await registry.create("/a", b"data") == "/a"
    data, stat = await registry.get("/a")
    assert data == b"data"
    assert stat.czxid == stat.mzxid == stat.pzxid > 0
    assert (stat.version, stat.cversion, stat.aversion) == (0, 0, 0)
    assert (stat.data_length, stat.num_children, stat.ephemeral_owner) == (4, 0, 0)
    assert stat.ctime == stat.mtime > 1_600_000_000_000


async def test_null_and_empty_data_are_different(registry):
    await registry.create("/null")
    await registry.create("/empty", b"")
    assert (await registry.get("/null"))[0] is None
    assert (await registry.get("/empty"))[0] == b""
    await registry.set("/empty", None)
    assert (await registry.get("/empty"))[0] is None


async def test_create_needs_a_parent_and_a_free_path(registry):
    with pytest.raises(NoNodeError) as missing:
        await registry.create("/a/b")
    assert missing.value.path == "/a"
    await registry.create("/a")
    with pytest.raises(NodeExistsError):
        await registry.create("/a", b"other")
    with pytest.raises(NodeExistsError):
        await registry.create("/")
    assert (await registry.get("/a"))[0] is None


async def test_make_parents(registry):
    assert await registry.create("/a/b/c", b"x", make_parents=True) == "/a/b/c"
    assert (await registry.get("/a/b"))[0] is None
    await registry.create("/a/b/d", make_parents=True)
    assert sorted(await registry.children("/a/b")) == ["c", "d"]
    with pytest.raises(NodeExistsError):
        await registry.create("/a/b/c", make_parents=True)


async def test_two_sessions_make_the_same_parents(registry, other):
    paths = await asyncio.gather(
        *(s.create(f"/a/b/c/{i}", make_parents=True) for i, s in enumerate([registry, other, registry, other]))
    )
    assert paths == [f"/a/b/c/{i}" for i in range(4)]
    assert sorted(await registry.children("/a/b/c")) == ["0", "1", "2", "3"]


async def test_set_counts_versions(registry):
    await registry.create("/a", b"0")
    created = await registry.exists("/a")
    stat = await registry.set("/a", b"1", 0)
    assert stat == await registry.exists("/a")
    assert (stat.version, stat.czxid) == (1, created.czxid)
    assert stat.mzxid > created.mzxid
    assert (await registry.set("/a", b"22")).version == 2
    with pytest.raises(BadVersionError):
        await registry.set("/a", b"3", 1)
    assert (await registry.get("/a"))[0] == b"22"
    with pytest.raises(NoNodeError):
        await registry.set("/b", b"")


async def test_delete(registry):
    await registry.create("/a")
    await registry.create("/a/b")
    with pytest.raises(NotEmptyError):
        await registry.delete("/a")
    with pytest.raises(BadVersionError):
        await registry.delete("/a/b", 1)
    await registry.delete("/a/b", 0)
    with pytest.raises(NoNodeError):
        await registry.delete("/a/b")
    await registry.delete("/a")
    assert await registry.exists("/a") is None
    with pytest.raises(BadArgumentsError):
        await registry.delete("/")


async def test_reads_of_an_absent_node(registry):
    assert await registry.exists("/none") is None
    for read in (registry.get, registry.children, registry.children_with_stat, registry.get_acl):
        with pytest.raises(NoNodeError):
            await read("/none")


async def test_reads_after_a_sync_see_what_others_have_written(registry, other):
    await registry.create("/a", b"0")
    await other.set("/a", b"1")
    await registry.sync()
    assert (await registry.get("/a"))[0] == b"1"


async def test_children_versions(registry):
    await registry.create("/a")
    for name in "xyz":
        await registry.create(f"/a/{name}")
    names, stat = await registry.children_with_stat("/a")
    assert sorted(names) == ["x", "y", "z"]
    assert (stat.cversion, stat.num_children, stat.version) == (3, 3, 0)
    await registry.delete("/a/y")
    deleted = await registry.exists("/a")
    assert (deleted.cversion, deleted.num_children) == (4, 2)
    assert deleted.pzxid > stat.pzxid
    assert deleted.mzxid == stat.mzxid
    await registry.set("/a/x", b"")  # not a change of the set of children
    assert await registry.exists("/a") == deleted


async def test_sequential_nodes_count_all_creations(registry):
    await registry.create("/q")
    assert await registry.create("/q/n-", sequence=True) == "/q/n-0000000000"
    await registry.create("/q/other")
    assert await registry.create("/q/n-", sequence=True) == "/q/n-0000000002"
    await registry.delete("/q/n-0000000002")
    assert await registry.create("/q/m", b"x", sequence=True, ephemeral=True) == "/q/m0000000003"
    assert await registry.create("/q/", sequence=True) == "/q/0000000004"
    await registry.create("/p")
    paths = await asyncio.gather(*(registry.create("/p/s", sequence=True) for _ in range(20)))
    assert paths == [f"/p/s{i:010d}" for i in range(20)]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "a/b",
        "/a/",
        "//",
        "/a//b",
        "/./a",
        "/a/.",
        "/a/../b",
        "/..",
        "/a\x00",
        "/a\x1f",
        "/\x7f",
        "/\u009f",
        "/\ud800",
        "/\ue000",
        "/\ufff0",
        "/\U0001f600",
    ],
)
async def test_malformed_paths_are_refused(registry, path):
    for call in (
        registry.create(path),
        registry.get(path),
        registry.exists(path),
        registry.set(path, b""),
        registry.delete(path),
        registry.children(path),
        registry.multi([Check(path, 0)]),
    ):
        with pytest.raises(BadArgumentsError):
            await call
    with pytest.raises(BadArgumentsError):
        registry.watch_data(path, lambda: None)
    with pytest.raises(BadArgumentsError):
        registry.watch_children(path, lambda: None)


@pytest.mark.parametrize(
    "path", ["/a b", "/...", "/.a", "/a.", "/<default>", "/*", "/CN%3Dx", "/é", "/\u4e2d", "/~", "/a:b"]
)
async def test_unusual_paths_are_accepted(registry, path):
    await registry.create(path, b"x")
    assert (await registry.get(path))[0] == b"x"
    assert await registry.children("/") in ([path[1:]], ["zookeeper", path[1:]], [path[1:], "zookeeper"])


async def test_ephemerals_belong_to_their_session(registry_backend, registry, other, eventually):
    await registry.create("/mine", b"x", ephemeral=True)
    await registry.create("/kept")
    await other.create("/theirs", ephemeral=True)
    assert (await other.exists("/mine")).ephemeral_owner == registry.session_id != 0
    assert (await other.exists("/theirs")).ephemeral_owner == other.session_id != registry.session_id
    with pytest.raises(NoChildrenForEphemeralsError):
        await registry.create("/mine/child")
    with pytest.raises(NodeExistsError):
        await other.create("/mine", ephemeral=True)
    before = await other.exists("/")
    await registry.close()

    async def gone():
        return await other.exists("/mine") is None

    await eventually(gone)
    after = await other.exists("/")
    assert after.cversion == before.cversion + 1
    assert after.pzxid > before.pzxid
    assert await other.exists("/kept") is not None
    assert await other.exists("/theirs") is not None


async def test_an_ephemeral_can_be_deleted_and_created_by_another(registry, other):
    await registry.create("/e", ephemeral=True)
    await other.delete("/e")
    await other.create("/e", ephemeral=True)
    await registry.close()
    assert (await other.exists("/e")).ephemeral_owner == other.session_id


async def test_multi_results(registry):
    await registry.create("/a", b"0")
    results = await registry.multi(
        [
            Check("/a", 0),
            Set("/a", b"1", 0),
            Check("/a", 1),
            Create("/a/b", b"x"),
            Create("/a/s", None, sequence=True),
            Create("/e", b"e", ephemeral=True),
            Set("/a/b", b"y"),
            Create("/gone"),
            Delete("/gone", 0),
        ]
    )
    stats = results[1], results[6]
    assert [None, *results[2:6], *results[7:]] == [None, None, "/a/b", "/a/s0000000001", "/e", "/gone", None]
    assert results[0] is None
    assert [stat.version for stat in stats] == [1, 1]
    data, stat = await registry.get("/a/b")
    assert (data, stat.version) == (b"y", 1)
    assert stat.czxid == stats[0].mzxid == stat.mzxid  # one transaction
    assert (await registry.exists("/e")).ephemeral_owner == registry.session_id
    assert await registry.exists("/gone") is None
    assert await registry.multi([]) == []


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        (Check("/a", 1), BadVersionError),
        (Check("/none", 0), NoNodeError),
        (Set("/a", b"", 3), BadVersionError),
        (Set("/none", b""), NoNodeError),
        (Create("/a"), NodeExistsError),
        (Create("/new"), NodeExistsError),  # made by the operation before
        (Create("/none/b"), NoNodeError),
        (Create("/eph/b"), NoChildrenForEphemeralsError),
        (Delete("/a", 1), BadVersionError),
        (Delete("/a"), NotEmptyError),
        (Delete("/none"), NoNodeError),
    ],
)
async def test_multi_is_all_or_nothing(registry, failing, error):
    await registry.create("/a", b"0")
    await registry.create("/a/b")
    before = await registry.exists("/a"), await registry.exists("/a/b")
    ops = [Create("/eph", ephemeral=True), Create("/new"), Set("/a/b", b"1"), failing, Create("/after")]
    with pytest.raises(error) as raised:
        await registry.multi(ops)
    assert raised.value.op_index == 3
    kinds = [type(result) for result in raised.value.results]
    assert kinds == [RolledBackError, RolledBackError, RolledBackError, error, RuntimeInconsistencyError]
    assert (await registry.exists("/a"), await registry.exists("/a/b")) == before
    for path in ("/eph", "/new", "/after"):
        assert await registry.exists(path) is None
    await registry.create("/new")


async def test_only_one_of_two_conditional_multis_wins(registry, other):
    """The controller's election: create /controller and bump its epoch, all or nothing."""
    await registry.create("/epoch", b"0")

    def election(who):
        return [Create("/controller", who, ephemeral=True), Set("/epoch", b"1", 0)]

    results = await asyncio.gather(registry.multi(election(b"a")), other.multi(election(b"b")), return_exceptions=True)
    assert sorted(isinstance(result, NodeExistsError) for result in results) == [False, True]
    assert (await registry.exists("/epoch")).version == 1


async def test_a_request_has_a_size_limit(registry):
    data = bytes(1_000_000)
    await registry.create("/big", data)
    assert (await registry.get("/big"))[0] == data
    with pytest.raises(DataTooLargeError):
        await registry.set("/big", bytes(1 << 20))
    with pytest.raises(DataTooLargeError):
        await registry.create("/bigger", bytes(1 << 20))
    with pytest.raises(DataTooLargeError):
        await registry.multi([Create("/x", bytes(600_000)), Create("/y", bytes(600_000))])
    assert sorted(set(await registry.children("/")) - {"zookeeper"}) == ["big"]


async def test_acls_are_kept_and_enforced(registry):
    assert (await registry.get_acl("/"))[0] == OPEN_ACL
    read_only = (Acl(Permission.READ | Permission.ADMIN, "world", "anyone"),)
    await registry.create("/a", b"x", acl=read_only)
    acl, stat = await registry.get_acl("/a")
    assert (acl, stat.aversion) == (read_only, 0)
    assert (await registry.get("/a"))[0] == b"x"
    for call in (registry.set("/a", b""), registry.create("/a/b")):
        with pytest.raises(NoAuthError):
            await call
    with pytest.raises(BadVersionError):
        await registry.set_acl("/a", OPEN_ACL, 1)
    stat = await registry.set_acl("/a", OPEN_ACL, 0)
    assert (stat.aversion, stat.version) == (1, 0)
    await registry.create("/a/b")
    await registry.set_acl("/a", [Acl(Permission.ALL - Permission.DELETE, "world", "anyone")])
    with pytest.raises(NoAuthError):
        await registry.delete("/a/b")
    await registry.set_acl("/a", [Acl(Permission.ALL - Permission.READ, "world", "anyone")])
    for read in (registry.get, registry.children):
        with pytest.raises(NoAuthError):
            await read("/a")
    with pytest.raises(InvalidAclError):
        await registry.create("/b", acl=[])
    with pytest.raises(NoNodeError):
        await registry.set_acl("/none", OPEN_ACL)


async def test_data_must_be_bytes(registry):
    with pytest.raises(TypeError):
        await registry.create("/a", "text")
    with pytest.raises(TypeError):
        await registry.create("/a", bytearray(1))
    await registry.create("/a", b"")


async def test_writes_of_one_session_are_applied_in_order(registry):
    await registry.create("/a", b"")
    stats = await asyncio.gather(*(registry.set("/a", b"%d" % i, i) for i in range(50)))
    assert [stat.version for stat in stats] == list(range(1, 51))
    assert (await registry.get("/a"))[0] == b"49"


async def test_versions_order_concurrent_writers(registry, other):
    """Read, then set by version, over again on a conflict: no increment is lost."""
    await registry.create("/n", b"0")

    async def increment(session):
        for _ in range(15):
            while True:
                data, stat = await session.get("/n")
                try:
                    await session.set("/n", b"%d" % (int(data) + 1), stat.version)
                except BadVersionError:
                    continue
                break

    await asyncio.gather(*(increment(session) for session in (registry, other) for _ in range(3)))
    assert (await registry.get("/n"))[0] == b"90"
