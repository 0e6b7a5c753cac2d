"""What verbs ask of a broker, or have it do, by name: in the broker's own process, which may be another one.

Arguments and results are JSON. An operation raises FaultError if it is not possible.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from broker.broker import Broker
from broker.controller.controller import Controller
from broker.controller.elections import ElectionType
from broker.errors import RequestError
from broker.services import Services
from ottla.testing.faults.errors import FaultError
from protocol.error_codes import ErrorCode
from registry.embedded.session import EmbeddedRegistry
from registry.errors import RegistryError
from registry.interface import Check, Create, Delete, Op, Set
from registry.znodes.brokers import BrokerZnode
from registry.znodes.controller import ControllerEpochZnode, ControllerZnode


async def is_controller(broker: Broker) -> bool:
    """Return whether the broker is the controller, and in office."""
    controller = broker.controller
    return controller is not None and controller.is_active


async def controller_id(broker: Broker) -> int:
    """Return the controller in the broker's metadata."""
    return broker.metadata.snapshot.controller_id


async def leader_of(broker: Broker, topic: str, partition: int) -> int | None:
    """Return the leader of a partition in the broker's metadata; None for an unknown partition."""
    state = broker.metadata.snapshot.partition(topic, partition)
    return None if state is None else state.leader


async def has_log_dir(broker: Broker) -> bool:
    """Return whether a log directory of the broker is online, or the broker has not looked yet."""
    return broker.services is None or bool(broker.services.logs.dirs.online)


async def knows_brokers(broker: Broker) -> list[int]:
    """Return the brokers in the broker's metadata."""
    return list(broker.metadata.snapshot.brokers)


async def coordinator_partition(broker: Broker, group: str | None, transactional_id: str | None) -> list[Any]:
    """Return topic and partition of a group, or of a transactional id; the topic is created if it is missing."""
    coordination = _services(broker).coordination
    if group is not None:
        log, name = coordination.group_log, group
    else:
        assert transactional_id is not None  # see MoveCoordinatorAction
        log, name = coordination.transaction_log, transactional_id
    await log.ensure_exists()
    return [log.topic, log.partition_for(name)]


async def move_leader(broker: Broker, topic: str, partition: int, to: int | None) -> list[int]:
    """Move the leader of a partition; the broker is the controller. Return the old and the new leader."""
    controller = _services(broker).controller
    assert controller is not None
    try:
        return list(await controller.decide("move_leader", partial(_elect, controller, (topic, partition), to)))
    except RequestError as error:
        raise FaultError(f"{topic}-{partition}: {error}") from None


async def _elect(controller: Controller, key: tuple[str, int], to: int | None) -> tuple[int, int]:
    """Put the new leader first, and elect it. Return the old and the new leader."""
    context = controller.context
    if not context.partition_exists(key) or key not in context.leaderships:
        raise FaultError(f"{key[0]}-{key[1]}: the partition does not exist")
    state = context.leaderships[key].state
    replicas = list(context.replicas(key))
    able = [one for one in replicas if one in state.isr and one in context.brokers]
    if to is None:
        others = [one for one in able if one != state.leader]
        if not others:
            raise FaultError(f"{key[0]}-{key[1]}: no other replica is in sync; the replicas in sync are {state.isr}")
        target = others[0]
    elif to not in replicas:
        raise FaultError(f"to={to}: the broker is no replica of {key[0]}-{key[1]}; the replicas are {replicas}")
    elif to not in able:
        raise FaultError(f"to={to}: the replica is not in sync; the replicas in sync are {state.isr}")
    else:
        target = to
    if target == state.leader:
        raise FaultError(f"to={target}: the broker is the leader of {key[0]}-{key[1]} already")
    await controller.reassignments.submit(key, [target, *(one for one in replicas if one != target)])
    code, text = (await controller.elections.elect([key], ElectionType.PREFERRED))[key]
    if code is not ErrorCode.NONE:
        raise FaultError(f"{key[0]}-{key[1]}: {text or code.name}")
    return state.leader, target


async def take_controller(broker: Broker) -> bool:
    """Replace `/controller` in the broker's session. Return False if it must be tried again."""
    services = _services(broker)
    registry = services.registry_access.registry
    path = ControllerEpochZnode.path()
    broker_id = broker.config.broker_id
    znode = ControllerZnode(broker=broker_id, timestamp_ms=services.now_ms())
    try:
        _, registered = await registry.get(BrokerZnode.path(broker_id))
        data, stat = await registry.get(path)
        epoch = ControllerEpochZnode.decode(data, path).epoch
        steps: list[Op] = [
            Check(BrokerZnode.path(broker_id), registered.version),  # a controller must be registered
            Delete(ControllerZnode.path()),
            Create(ControllerZnode.path(), znode.encode(), ephemeral=True),
            Set(path, ControllerEpochZnode(epoch=epoch + 1).encode(), stat.version),
        ]
        await registry.multi(steps)
    except RegistryError:  # another one was elected, or the session has expired
        return False
    return True


async def expire_session(broker: Broker) -> int:
    """End the broker's session in the registry, as after a long pause of the broker. Return its id."""
    from registry.zookeeper.registry import ZooKeeperRegistry  # 12 ms and 2 MB, which a broker without it saves

    registry = _services(broker).registry_access.registry
    session_id: int = registry.session_id
    if isinstance(registry, EmbeddedRegistry):
        await registry.expire()
    elif isinstance(registry, ZooKeeperRegistry) and (credentials := registry.credentials) is not None:
        await registry.end_session(credentials)
    else:
        raise FaultError(f"broker={broker.config.broker_id}: the broker has no session at the moment")
    return session_id


def _services(broker: Broker) -> Services:
    if broker.services is None:
        raise FaultError("the broker has not started yet")
    return broker.services


OPERATIONS: Final[Mapping[str, Callable[..., Awaitable[Any]]]] = {
    operation.__name__: operation
    for operation in (
        is_controller,
        controller_id,
        leader_of,
        has_log_dir,
        knows_brokers,
        coordinator_partition,
        move_leader,
        take_controller,
        expire_session,
    )
}
"""By name."""
