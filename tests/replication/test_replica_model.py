"""Histories of three replicas (`support.replica_group`): crashes, elections, stale leaders, words that arrive late.

Whatever happens: what was committed once is in every later leader's log, in the same place; consumers never see the end
go back; no leader waits for a replica that lags too far or too long; and in the end the three logs are the same bytes.
"""

import asyncio
import logging
import os

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings

from replication.in_sync_replicas import NO_LIMIT
from support.counts import count
from support.memory_disk import memory_directory
from support.replica_group import ReplicaGroup

HISTORIES = int(os.environ.get("OTTLA_HISTORIES") or count(60, 1_000))
BROKERS = st.integers(0, 2)

STEPS = st.one_of(
    st.tuples(st.just("produce"), BROKERS, st.integers(1, 5)),
    st.tuples(st.just("produce_to_leader"), st.integers(1, 5)),
    st.tuples(st.just("fetch"), BROKERS),
    st.tuples(st.just("fetch"), BROKERS),
    st.tuples(st.just("fetch_all")),
    st.tuples(st.just("lag"), BROKERS, st.integers(1, 5), st.sampled_from([100, 6_000, 11_000])),
    st.tuples(st.just("deliver"), BROKERS),
    st.tuples(st.just("deliver_all")),
    st.tuples(st.just("elect"), BROKERS),
    st.tuples(st.just("crash"), BROKERS, st.integers(0, 3)),
    st.tuples(st.just("restart"), BROKERS),
    st.tuples(st.just("checkpoint"), BROKERS),
    st.tuples(st.just("wait"), st.sampled_from([100, 6_000, 11_000])),
)


@pytest.fixture(autouse=True)
def quiet():
    for name in ("storage", "replication"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    yield
    for name in ("storage", "replication"):
        logging.getLogger(name).setLevel(logging.NOTSET)


async def take(group, step):
    name, *arguments = step
    match name, arguments:
        case "produce", [broker, number]:
            group.produce(broker, number)
        case "produce_to_leader", [number]:
            if group.leader >= 0:
                group.produce(group.leader, number)
        case "fetch", [broker]:
            await group.replicas[broker].fetch()
        case "fetch_all", []:
            await group.fetch_all()
        case "lag", [broker, number, ms]:  # while the others go on, one of them stands still
            if group.leader >= 0:
                group.produce(group.leader, number)
            await group.fetch_all(but=broker)
            await group.wait(ms)
        case "deliver", [broker]:
            await group.deliver(broker)
        case "deliver_all", []:
            for broker in range(3):
                await group.deliver(broker)
        case "elect", [broker]:
            group.elect(broker)
        case "crash", [broker, lost]:
            # A power cut may take what is not synced from one in-sync replica, until it is back.
            await group.crash(broker, lost_records=lost if len(group.isr) == 3 else 0)
        case "restart", [broker]:
            await group.restart(broker)
        case "checkpoint", [broker]:
            await group.checkpoint(broker)
        case "wait", [ms]:
            await group.wait(ms)
    await group.settle()
    group.check()


async def run(steps, truncates_on_fetch, max_lag_messages):
    with memory_directory("replicas") as root:
        group = ReplicaGroup(root, truncates_on_fetch=truncates_on_fetch, max_lag_messages=max_lag_messages)
        try:
            await group.start()
            for step in steps:
                await take(group, step)
            await group.heal()
        finally:
            await group.close()


@pytest.mark.counted
@pytest.mark.timeout(0)
@pytest.mark.parametrize("truncates_on_fetch", [True, False])
def test_histories(truncates_on_fetch):
    @settings(
        max_examples=HISTORIES,
        database=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(STEPS, min_size=20, max_size=50), st.sampled_from([NO_LIMIT, 2, 6]))
    def histories(steps, max_lag_messages):
        note(f"{steps}, replica.lag.max.messages={max_lag_messages}")
        asyncio.run(run(steps, truncates_on_fetch, max_lag_messages))

    histories()
