"""AlterClientQuotas and DescribeClientQuotas as recorded from Kafka 3.9, on both registries; and what they change."""

import json

import pytest

from broker.broker import Broker
from broker.quotas.alteration import java_double
from broker.settings.config import BrokerConfig
from protocol.api_keys import request_class
from protocol.json import from_json
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from registry.embedded.store import EmbeddedStore
from registry.errors import NoNodeError
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from support.broker import running_broker, settings
from support.polling import until
from support.reference import REFERENCE
from support.wire import wire_client
from support.zookeeper import new_chroot, shared_zookeeper

SECURITY = REFERENCE / "security"
KINDS = ("users", "clients", "ips")


def recorded(name):
    return [json.loads(line) for line in (SECURITY / name).read_text().splitlines()]


CASES = recorded("quota-api.jsonl")
STEPS = {one["step"]: one for one in recorded("quota-znodes.jsonl")}


def named(name):
    return "the default" if name is None else name


def entity(entries):
    return tuple(sorted((one.entity_type, named(one.entity_name)) for one in entries))


def plain(entity):
    return tuple(sorted((one["entityType"], named(one["entityName"])) for one in entity))


def expected(case):
    """A recorded answer without texts of errors and order."""
    answer = case["response_json"]
    if case["api_key"] == 49:
        return {plain(one["entity"]): one["errorCode"] for one in answer["entries"]}
    entries = answer["entries"]
    if entries is not None:
        entries = {plain(one["entity"]): {v["key"]: v["value"] for v in one["values"]} for one in entries}
    return answer["errorCode"], entries


def observed(answer):
    if answer.API_KEY == 49:
        return {entity(one.entity): one.error_code for one in answer.entries}
    entries = answer.entries
    if entries is not None:
        entries = {entity(one.entity): {value.key: value.value for value in one.values} for one in entries}
    return answer.error_code, entries


class Tree:
    """The recorded tree below /config, step by step, and the live one."""

    def __init__(self, registry):
        self.registry = registry
        self.expected = {}
        self.notified = []

    def apply(self, step):
        for path in step["removed"]:
            self.expected.pop(path, None)
        for znode in step["changed"]:
            if znode["path"].startswith("/config/changes/"):
                self.notified.append(znode["value"]["entity_path"])
            elif znode["path"].count("/") > 2:
                self.expected[znode["path"]] = (znode["version"], znode["value"])
        if len(self.expected) == 1:
            del self.notified[:-1]  # of the cleaning up before

    async def live(self):
        found = {}
        for kind in KINDS:
            await self._walk(f"/config/{kind}", found)
        return found

    async def _walk(self, path, found):
        for name in await self.registry.children(path):
            child = f"{path}/{name}"
            data, stat = await self.registry.get(child)
            found[child] = (stat.version, None if data is None else json.loads(data))
            await self._walk(child, found)

    async def notifications(self):
        names = sorted(await self.registry.children("/config/changes"))
        return [json.loads((await self.registry.get(f"/config/changes/{name}"))[0])["entity_path"] for name in names]


async def on_embedded(tmp_path):
    store = await EmbeddedStore.open()
    broker = Broker(BrokerConfig.load(None, settings(tmp_path / "data")), store=store)
    return broker, store.session(), store.close


async def on_zookeeper(tmp_path):
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    config = BrokerConfig.load(None, settings(tmp_path / "data") | {"zookeeper.connect": connect, "broker.id": "0"})
    registry = ZooKeeperRegistry(ZooKeeperAddress.parse(connect))

    async def nothing():
        pass

    return Broker(config), registry, nothing


@pytest.mark.parametrize("registry_of", [on_embedded, on_zookeeper])
@pytest.mark.parametrize("version", [0, 1])
async def test_the_recorded_requests_and_znodes(tmp_path, registry_of, version):
    running, registry, close = await registry_of(tmp_path)
    wrong = []
    async with running as broker, wire_client(broker.bootstrap_servers) as client:
        await registry.start()
        tree = Tree(registry)
        compared = 0
        for case in CASES:
            if case["api_version"] != version or case["case"] == "x":
                continue
            request = from_json(request_class(case["api_key"]), case["request_json"], version)
            answer = observed(await client.call(request, version))
            if answer != expected(case):
                wrong.append((case["case"], answer, expected(case)))
            step = STEPS.get(case["case"])
            if step is not None and case["api_key"] == 49:
                tree.apply(step)
                if (live := await tree.live()) != tree.expected:
                    wrong.append((case["case"], live, tree.expected))
                if (notified := await tree.notifications()) != tree.notified:
                    wrong.append((case["case"], notified, tree.notified))
                compared += 1
        assert wrong == []
        assert compared > 25
        await registry.close()
    await close()


def user(name, *operations, kind="user"):
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name)],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in operations],
    )


async def alter(client, *entries):
    return await client.call(AlterClientQuotasRequest(entries=list(entries), validate_only=False), 1)


async def test_a_change_has_its_effect_on_every_broker_and_spares_other_values(tmp_path):
    store = await EmbeddedStore.open()
    async with (
        Broker(BrokerConfig.load(None, settings(tmp_path / "0") | {"broker.id": "0"}), store=store) as here,
        Broker(BrokerConfig.load(None, settings(tmp_path / "1") | {"broker.id": "1"}), store=store) as there,
        wire_client(here.bootstrap_servers) as client,
    ):
        await there.services.configs.entities.alter("users/alice", lambda config: {"SCRAM-SHA-256": "secret"})
        await alter(client, user("alice", ("producer_byte_rate", 1000.0)))
        limits = here.services.quotas.of("alice", "c")
        assert limits.produce.measure.quota == 1000
        await until(lambda: there.services.quotas.is_active, "the other broker knows the quota")
        assert there.services.quotas.of("alice", "c").produce.measure.quota == 1000
        described = await client.call(DescribeClientQuotasRequest(components=[], strict=False), 1)
        [entry] = described.entries
        assert [value.key for value in entry.values] == ["producer_byte_rate"]  # not the credential
        await alter(client, user("alice", ("producer_byte_rate", None), ("SCRAM-SHA-256", None)))
        await until(lambda: not there.services.quotas.is_active, "the quota is gone")
        assert await there.services.configs.entities.read("users/alice") == {"SCRAM-SHA-256": "secret"}
    await store.close()


async def test_quotas_are_there_after_a_restart(tmp_path):
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        await alter(client, user(None, ("request_percentage", 200.0), kind="client-id"))
    async with running_broker(tmp_path / "data") as broker:
        assert broker.services.quotas.of("ANONYMOUS", "any").request.measure.quota == 200


async def test_a_negative_percentage_is_refused(tmp_path):
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        for value in (-1.0, float("nan")):
            answer = await alter(client, user("u", ("request_percentage", value)))
            assert answer.entries[0].error_code == 42
        with pytest.raises(NoNodeError):
            await broker.services.registry_access.registry.get("/config/users/u")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (50.0, "50.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (0.00025, "2.5E-4"),
        (1.5e-9, "1.5E-9"),
        (20000000.0, "2.0E7"),
        (12345678901234567890.0, "1.2345678901234567E19"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.5, "1.234567895E8"),
        (1e300, "1.0E300"),
        (float("inf"), "Infinity"),
    ],
)
def test_numbers_as_java_writes_them(value, text):
    assert java_double(value) == text
