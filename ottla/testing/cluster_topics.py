"""Topics of a cluster in this process, created without a client: that takes a few milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.broker import Broker
from broker.errors import RequestError
from broker.services import Services
from broker.topics import DEFAULT
from client.errors import error_for
from ottla.testing.member import Member, MemberState

LEADERS_TIMEOUT_S = 60.0


async def create_topic(
    members: Iterable[Member],
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Mapping[str, str],
) -> None:
    """Create a topic, and wait until every running broker knows the leaders of its partitions.

    Raises KafkaError if the brokers refuse the topic, TimeoutError if it gets no leaders.
    """
    running = _running(members)
    try:
        created = await _services(running[0]).topics.create(
            name,
            partitions=DEFAULT if partitions is None else partitions,
            replication_factor=DEFAULT if replication_factor is None else replication_factor,
            overrides=configs,
        )
    except RequestError as error:
        raise error_for(error.code, str(error), context=f"create topic {name}") from None
    for broker in running:
        if not await _services(broker).topics.wait_until_led(name, created.partitions, LEADERS_TIMEOUT_S):
            raise TimeoutError(f"topic {name} has no leaders after {LEADERS_TIMEOUT_S:g} s")


async def delete_topic(members: Iterable[Member], name: str) -> None:
    """Ask the controller to delete a topic; do not wait for it. Raises KafkaError for an unknown topic."""
    try:
        await _services(_running(members)[0]).topics.delete(name)
    except RequestError as error:
        raise error_for(error.code, str(error), context=f"delete topic {name}") from None


def _running(members: Iterable[Member]) -> list[Broker]:
    """Return the brokers that run. Raises RuntimeError if none does."""
    running = [one.broker for one in members if one.state is MemberState.RUNNING and one.broker is not None]
    if not running:
        raise RuntimeError("no broker of the cluster runs")
    return running


def _services(broker: Broker) -> Services:
    services = broker.services
    assert services is not None  # the broker is ready
    return services
