"""Two brokers, one of them without ClusterAction: the steps of inter-broker.jsonl, recorded from Kafka.

Broker 0 logs in as User:admin, a super user, and is the controller; broker 1 logs in as User:bob.
"""

import contextlib
import json
import re

from broker.broker import Broker
from broker.settings.checks import ACL_AUTHORIZER
from broker.settings.config import BrokerConfig
from client.admin.admin import Admin
from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest
from registry.embedded.store import EmbeddedStore
from registry.errors import NoNodeError
from security.acls.binding import AclFilter
from security.jaas import PLAIN_MODULE
from support.authorization import allow
from support.broker import settings
from support.polling import until
from support.reference import REFERENCE
from support.sasl import plain_login
from support.wire import batch, produce, wire_client

STEPS = {
    one["step"]: one
    for one in map(json.loads, (REFERENCE / "security" / "inter-broker.jsonl").read_text().splitlines())
}
USERS = 'user_admin="admin-secret" user_bob="bob-secret"'
GRANT = allow("User:bob", "ClusterAction", "Cluster")


def recorded(begin):
    """The recorded step that begins so."""
    return next(one for step, one in STEPS.items() if step.startswith(begin))


def broker_settings(log_dir, number, user):
    jaas = f'{PLAIN_MODULE} required username="{user}" password="{user}-secret" {USERS};'
    return settings(log_dir) | {
        "broker.id": str(number),
        "listeners": "SASL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": "User:admin",
        "replica.lag.time.max.ms": "300",
        "replica.fetch.backoff.ms": "20",
        "replica.fetch.wait.max.ms": "50",
        "controlled.shutdown.retry.backoff.ms": "1",
    }


@contextlib.asynccontextmanager
async def as_admin(broker):
    async with wire_client(broker.bootstrap_servers) as client:
        assert (await plain_login(client, "admin", "admin-secret")).error_code == 0
        yield client


class Pair:
    """The two brokers, and what the registry says of the partitions of t."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self.brokers: list[Broker] = []
        self.registry = store.session()

    async def partitions(self):
        """Leader and ISR of the partitions, as recorded."""
        found = {}
        for number in (0, 1):
            with contextlib.suppress(NoNodeError):
                data, _ = await self.registry.get(f"/brokers/topics/t/partitions/{number}/state")
                state = json.loads(data)
                found[f"t-{number}"] = {"leader": state["leader"], "isr": sorted(state["isr"])}
        return found

    async def until_recorded(self, step):
        """Wait until leaders and ISRs are those of a step."""
        expected = {
            name: {"leader": one["leader"], "isr": sorted(one["isr"])} for name, one in step["partitions"].items()
        }

        async def as_recorded():
            return await self.partitions() == expected

        await until(as_recorded, f"the partitions of the step: {step['step']}")

    async def produced(self, number):
        """The error of a record for the partition that a broker leads, with acks=all."""
        async with as_admin(self.brokers[number]) as client:
            answer = await client.call(produce("t", batch(b"v"), number), 9)
            return answer.responses[0].partition_responses[0].error_code

    async def producer_id_error(self):
        """The error of InitProducerId at broker 1."""
        async with as_admin(self.brokers[1]) as client:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            return (await client.call(request, 4)).error_code


@contextlib.asynccontextmanager
async def two_brokers(tmp_path):
    """Broker 0, then broker 1, and an admin client of broker 0."""
    store = await EmbeddedStore.open()
    pair = Pair(store)
    await pair.registry.start()
    async with contextlib.AsyncExitStack() as stack:
        for number, user in enumerate(("admin", "bob")):
            config = BrokerConfig.load(None, broker_settings(tmp_path / str(number), number, user))
            broker = await stack.enter_async_context(Broker(config, store=store))
            pair.brokers.append(broker)
        first = pair.brokers[0]
        await until(lambda: len(first.metadata.snapshot.brokers) == 2, "both are there")
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        user = {"sasl_plain_username": "admin", "sasl_plain_password": "admin-secret"}
        admin = await stack.enter_async_context(Admin(bootstrap_servers=first.bootstrap_servers, **login, **user))
        yield pair, admin
    await pair.registry.close()
    await store.close()


def denied_in(text):
    """Who was refused what, in which request."""
    line = r'denied: principal="([^"]+)" .*operation=(\w+) resource=(\w+):"([^"]+)" api=(\w+)'
    return {
        (who, operation, f"{kind}:LITERAL:{name}", api) for who, operation, kind, name, api in re.findall(line, text)
    }


async def test_the_recorded_steps(tmp_path, caplog):
    caplog.set_level("INFO", "broker.authorization.audit")
    async with two_brokers(tmp_path) as (pair, admin):
        assert pair.brokers[0].metadata.snapshot.controller_id == recorded("broker 0")["controller"]
        await admin.create_topic("t", assignment={0: [0, 1], 1: [1, 0]})
        await pair.until_recorded(recorded("topic t"))

        step = recorded("5 s later")
        found = [await pair.produced(number) for number in (0, 1)]
        assert found == [step["produce_to_leader_0"], step["produce_to_leader_1"]]
        await pair.until_recorded(step)

        # Kafka's broker 1 asks the controller, which refuses: 14. Ours takes its ids from the registry.
        assert await pair.producer_id_error() == ErrorCode.NONE

        assert not any((await admin.create_acls([GRANT])).values())
        step = recorded("ClusterAction")
        await pair.until_recorded(step)
        found = [await pair.produced(number) for number in (0, 1)]
        assert found == [step["produce_to_leader_0"], step["produce_to_leader_1"]]

        await admin.delete_acls([AclFilter()])
        step = recorded("the ACL taken away")
        assert await pair.produced(0) == step["produce_to_leader_0"]  # a follower that has all records stays in sync
        await pair.until_recorded(step)

        pair.brokers[1].stop()
        await pair.until_recorded(recorded("broker 1 stopped"))
    expected = {
        (one["principal"], one["operation"], one["resource"], one["request"])
        for one in recorded("operations refused")["denied"]
        if one["request"] != "AllocateProducerIds"
    }
    # Broker 1 also asks in vain to shrink an ISR if its follower falls behind for 300 ms, on a busy machine.
    shrinking = {("User:bob", "ClusterAction", "Cluster:LITERAL:kafka-cluster", "AlterPartition")}
    assert denied_in(caplog.text) - shrinking == expected - shrinking
