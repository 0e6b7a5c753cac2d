"""ACLs in the registry: the recorded znodes of Kafka, two brokers, and changes by hand."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from broker.authorization.registry_authorizer import RegistryAuthorizer
from client.wire.backoff import Backoff
from registry.embedded.store import EmbeddedStore
from registry.errors import ZnodeFormatError
from registry.znodes.acls import AclChangeZnode
from security.acls.binding import AclFilter, ResourcePattern
from security.acls.types import PatternType, ResourceType
from support.authorization import acls_of, allow, authorized_broker, authorizer_of, client_of, send_recorded
from support.broker import running_broker
from support.lossy_registry import LossyRegistry
from support.polling import until
from support.reference import REFERENCE
from support.zookeeper import new_chroot, shared_zookeeper

FOLDERS = ("/kafka-acl", "/kafka-acl-changes", "/kafka-acl-extended", "/kafka-acl-extended-changes")


def steps():
    with (REFERENCE / "security" / "acl-znodes.jsonl").open() as lines:
        return [json.loads(line) for line in lines]


async def znodes(registry, paths=FOLDERS):
    """The content of every znode below the folders, with its version."""
    found = {}
    for path in paths:
        data, stat = await registry.get(path)
        found[path] = (readable(data), stat.version)
        below = [f"{path}/{name}" for name in await registry.children(path)]
        found |= await znodes(registry, below)
    return found


def readable(data):
    if data is None:
        return None
    try:
        value = json.loads(data)
    except ValueError:
        return data.decode()
    return ordered(value)


def ordered(value):
    """A recorded or found content; the order of ACLs is that of Kafka's sets."""
    if isinstance(value, dict) and "acls" in value:
        return value | {"acls": sorted(value["acls"], key=repr)}
    return value


def without_numbers(found):
    """Notifications as a list for each folder: Kafka changes the patterns of one request in the order of its sets."""
    contents = {path: one for path, one in found.items() if "/acl_changes_" not in path}
    changes = [(path.rpartition("/")[0], repr(one)) for path, one in found.items() if path not in contents]
    return contents, sorted(changes)


@pytest.mark.parametrize("kind", ["embedded", "zookeeper"])
async def test_the_recorded_znodes(tmp_path, kind):
    """After each recorded request, the znodes are those of Kafka, with their versions."""
    overrides = {} if kind == "embedded" else {"zookeeper_connect": f"{shared_zookeeper().connect}{new_chroot()}"}
    frames = {}
    with (REFERENCE / "security" / "acl-api.jsonl").open() as lines:
        for line in lines:
            one = json.loads(line)
            frames[one["case"].removeprefix("znodes: ")] = one
    async with authorized_broker(tmp_path / "data", **overrides) as broker:
        registry = broker.services.registry_access.registry
        first, *rest = steps()
        expected = {one["path"]: (ordered(one["value"]), one["version"]) for one in first["znodes"]}
        assert without_numbers(await znodes(registry)) == without_numbers(expected)
        for step in rest:
            if "request" not in step:
                break  # from here on, the recording wrote to ZooKeeper past the broker
            async with client_of(broker, "User:admin") as admin:
                await send_recorded(admin, frames[step["step"]])
            for path in step["removed"]:
                del expected[path]
            expected |= {one["path"]: (ordered(one["value"]), one["version"]) for one in step["changed"]}
            assert without_numbers(await znodes(registry)) == without_numbers(expected), step["step"]


async def test_an_acl_written_by_hand_is_seen_with_its_notification(tmp_path):
    by_hand = [step for step in steps() if "broker_sees_with_notification" in step]
    async with authorized_broker(tmp_path / "data") as broker:
        registry = broker.services.registry_access.registry
        for step in by_hand:
            for one in step["changed"]:
                data = one["value"] if isinstance(one["value"], str) else json.dumps(one["value"])
                is_change = "acl_changes_" in one["path"]
                path = one["path"].rpartition("_")[0] + "_" if is_change else one["path"]
                await registry.create(path, data.encode(), sequence=is_change)
        await until(lambda: {acl.pattern.name for acl in acls_of(broker)} == {"by-hand", "by-hand2"}, "both are seen")
        patterns = {acl.pattern for acl in acls_of(broker)}
        assert ResourcePattern(ResourceType.TOPIC, "by-hand2", PatternType.PREFIXED) in patterns


async def test_brokers_see_the_changes_of_each_other(tmp_path):
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    common = {"zookeeper_connect": connect, "offsets_topic_replication_factor": "1"}
    async with (
        authorized_broker(tmp_path / "0", broker_id="0", **common) as one,
        authorized_broker(tmp_path / "1", broker_id="1", **common) as other,
    ):
        bindings = [allow("User:a", "Read", "Topic", "t"), allow("User:a", "Write", "Topic", "p", "prefixed")]
        assert await authorizer_of(one).create(bindings) == [None, None]
        await until(lambda: acls_of(other) == set(bindings), "the other broker knows them")
        await authorizer_of(other).delete([AclFilter()])
        await until(lambda: not acls_of(one), "the first broker has forgotten them")
        many = [allow(f"User:{number}", "Read", "Topic", "t") for number in range(20)]
        outcomes = await asyncio.gather(
            *(authorizer_of((one, other)[number % 2]).create([acl]) for number, acl in enumerate(many))
        )
        assert outcomes == [[None]] * len(many)
        await until(lambda: acls_of(one) == acls_of(other) == set(many), "no change of either broker is lost")


async def test_a_restart_keeps_acls(tmp_path):
    acl = allow("User:a", "Read", "Topic", "t")
    async with authorized_broker(tmp_path / "data") as broker:
        await authorizer_of(broker).create([acl])
    async with authorized_broker(tmp_path / "data") as broker:
        assert acls_of(broker) == {acl}


async def test_an_acl_that_cannot_be_read_stops_the_start(tmp_path):
    async with running_broker(tmp_path / "data") as broker:
        registry = broker.services.registry_access.registry
        bad = b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Deny","operation":"Fly","host":"*"}]}'
        await registry.create("/kafka-acl/Topic/t", bad, make_parents=True)
    with pytest.raises(ZnodeFormatError, match="'Fly' is none of Kafka's names"):
        async with authorized_broker(tmp_path / "data"):
            pass


async def test_a_change_that_cannot_be_read_leaves_the_rules_in_force(tmp_path, caplog):
    acl = allow("User:a", "Read", "Topic", "t")
    async with authorized_broker(tmp_path / "data") as broker:
        registry = broker.services.registry_access.registry
        await authorizer_of(broker).create([acl])
        await registry.set("/kafka-acl/Topic/t", b"{")
        change = AclChangeZnode(resource_type="TOPIC", resource="t")
        await registry.create(AclChangeZnode.path(), change.encode(), sequence=True)
        await until(lambda: "a change of ACLs is ignored" in caplog.text, "the error is logged")
        assert acls_of(broker) == {acl}


async def test_a_change_of_an_impossible_name_is_ignored_and_the_next_one_is_seen(tmp_path, caplog):
    acl = allow("User:a", "Read", "Topic", "t")
    async with authorized_broker(tmp_path / "data") as broker:
        registry = broker.services.registry_access.registry
        await authorizer_of(broker).create([acl])
        await registry.delete("/kafka-acl/Topic/t")
        for topic in ("", "a/../b", "t"):
            change = AclChangeZnode(resource_type="TOPIC", resource=topic)
            await registry.create(AclChangeZnode.path(), change.encode(), sequence=True)
        await until(lambda: not acls_of(broker), "the change after them is seen")
        assert caplog.text.count("a change of ACLs is ignored") == 2


class LaggingRegistry(LossyRegistry):
    """After the loss its server knows only what was read before, until `sync`."""

    def __init__(self, registry):
        super().__init__(registry)
        self._known = {}

    async def get(self, path):
        if self.is_lost and path in self._known:
            return self._known[path]
        self._known.pop(path, None)
        found = self._known[path] = await self.registry.get(path)
        return found

    async def sync(self):
        self.is_lost = False
        await self.registry.sync()


@pytest.mark.parametrize("is_applied", [False, True], ids=["not applied", "applied"])
@pytest.mark.parametrize("write", [1, 2])
async def test_a_change_is_made_and_others_see_it_if_the_connection_breaks_meanwhile(write, is_applied):
    store = await EmbeddedStore.open()
    registries = [LaggingRegistry(store.session()), store.session()]
    for registry in registries:
        await registry.start()
    one, other = (
        RegistryAuthorizer(
            {},
            registry,
            frozenset(),
            allows_without_acls=False,
            now_ms=lambda: 0,
            backoff=Backoff(1, 1, random.Random(1)),
        )
        for registry in registries
    )
    for authorizer in (one, other):
        await authorizer.start()
    following = asyncio.create_task(other.run())  # `one` does not follow: its own answers must suffice
    lossy, acls = registries[0], [allow("User:a", "Read", "Topic", "t"), allow("User:a", "Read", "Topic", "u")]

    async def lossy_change(change):
        lossy.writes_left, lossy.is_applied = write, is_applied
        answer = await change()
        lossy.writes_left = None
        return answer

    assert await lossy_change(lambda: one.create(acls[:1])) == [None]
    await until(lambda: set(other.describe(AclFilter())) == set(acls[:1]), "the other broker knows the ACL")
    assert await lossy_change(lambda: one.create(acls)) == [None, None]
    await until(lambda: set(other.describe(AclFilter())) == set(acls), "the other broker knows both")
    (deleted,) = await lossy_change(lambda: one.delete([AclFilter()]))
    assert set(deleted) == set(acls)
    await until(lambda: not set(other.describe(AclFilter())), "the other broker has forgotten them")
    assert not set(one.describe(AclFilter()))
    following.cancel()
    await asyncio.wait([following])
    for registry in registries:
        await registry.close()
    await store.close()
