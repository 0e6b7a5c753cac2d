"""Consumer groups (KIP-848) are offered only while every registered broker has them; a broker of 3.6 has not."""

import contextlib

import pytest

from broker.broker import Broker
from broker.coordinator.group_coordinator import CONSUMER_PROTOCOL_APIS
from broker.settings.config import BrokerConfig
from ottla.testing.versions import apis_of
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from registry.embedded.store import EmbeddedStore
from support.broker import settings
from support.consumer_member import ConsumerMember
from support.groups import find_group
from support.polling import until
from support.wire import create_topic, wire_client

OLD = apis_of("3.6")
NEWER = set(CONSUMER_PROTOCOL_APIS)


@pytest.fixture
async def store():
    store = await EmbeddedStore.open()
    yield store
    await store.close()


def config(tmp_path, broker_id, **overrides):
    """One replica of the offsets: the coordinator of every group stays on the first broker."""
    values = settings(tmp_path / str(broker_id), broker_id=str(broker_id), **overrides)
    return BrokerConfig.load(None, values | {"offsets.topic.num.partitions": "1"})


async def announced(broker):
    """Return the APIs that a new client finds."""
    async with wire_client(broker.bootstrap_servers) as client:
        return {api.api_key for api in (await client.call(ApiVersionsRequest(), 2)).api_keys}


async def until_offered(broker, expected):
    async def is_offered():
        return (await announced(broker) >= NEWER) == expected

    await until(is_offered, f"broker {broker.config.broker_id} offers consumer groups: {expected}")


@contextlib.asynccontextmanager
async def member_of(broker, group_id, member_id):
    async with wire_client(broker.bootstrap_servers) as client:
        await find_group(client.call, group_id)
        yield ConsumerMember(client.call, group_id, member_id, "t")


async def test_a_broker_without_consumer_groups_hides_them_while_it_is_registered(tmp_path, store):
    async with Broker(config(tmp_path, 1), store=store) as first, Broker(config(tmp_path, 2), store=store) as second:
        await until_offered(first, True)
        async with Broker(config(tmp_path, 3), store=store, apis=OLD):
            await until_offered(first, False)
            await until_offered(second, False)
            assert not NEWER & await announced(first)
        await until_offered(first, True)
        await until_offered(second, True)


async def test_a_broker_that_starts_after_the_old_one_learns_of_it_and_of_its_upgrade(tmp_path, store):
    async with Broker(config(tmp_path, 1), store=store, apis=OLD), Broker(config(tmp_path, 2), store=store) as newer:
        await until_offered(newer, False)
    async with Broker(config(tmp_path, 1), store=store), Broker(config(tmp_path, 2), store=store) as newer:
        await until_offered(newer, True)


async def test_groups_with_members_are_served_on_and_others_are_refused(tmp_path, store):
    async with Broker(config(tmp_path, 1), store=store) as first, contextlib.AsyncExitStack() as members:
        async with wire_client(first.bootstrap_servers) as client:
            await create_topic(client, "t", partitions=2)
        one = await members.enter_async_context(member_of(first, "in-use", "one"))
        await one.join()
        async with Broker(config(tmp_path, 2), store=store, apis=OLD):
            other = await members.enter_async_context(member_of(first, "other", "x"))

            async def is_refused():
                answer = await other.beat()
                if answer.error_code == 0:
                    await other.leave()  # not known yet: nobody stays in the group
                    other.epoch = 0
                    return None
                return answer

            refused = await until(is_refused, "a new group is refused")
            assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert "brokers [2] do not have the consumer group protocol" in refused.error_message
            assert (await one.beat()).error_code == 0
            two = await members.enter_async_context(member_of(first, "in-use", "two"))
            await two.join()
            assert await announced(first) >= NEWER  # the members must be able to reconnect
            for member in (one, two):
                assert (await member.leave()).error_code == 0
            await until_offered(first, False)


async def test_the_setting_offers_them_in_any_case(tmp_path, store):
    asked = {"group_coordinator_rebalance_protocols": "classic,consumer"}
    async with (
        Broker(config(tmp_path, 1, **asked), store=store) as asking,
        Broker(config(tmp_path, 2), store=store) as plain,
        Broker(config(tmp_path, 3), store=store, apis=OLD),
    ):
        await until_offered(plain, False)
        peers = asking.services.peers
        await until(lambda: peers.brokers_without(*CONSUMER_PROTOCOL_APIS) == [3], "the asking broker knows, too")
        assert await announced(asking) >= NEWER


async def test_classic_groups_only(tmp_path, store):
    only = {"group_coordinator_rebalance_protocols": "classic"}
    async with Broker(config(tmp_path, 1, **only), store=store) as broker:
        assert not NEWER & await announced(broker)
