"""The current and requested log directories of replicas, for `ottla reassign`."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from client.admin.types import Replica
from client.errors import KafkaError
from ottla.command_line.clients import Admin
from ottla.command_line.failure import CommandError
from protocol.error_codes import ErrorCode

POLL_S = 0.1


class Place(NamedTuple):
    """The log directory of a replica, and the directory that it is being moved to; each None if there is none."""

    log_dir: str | None = None
    future: str | None = None

    def state(self, target: str) -> str:
        """Return the state of a replica whose requested directory is `target`."""
        if self.future is not None:
            return "on its way" if self.future == target else "on its way elsewhere"
        if self.log_dir is None:
            return "missing"
        return "done" if self.log_dir == target else "elsewhere"


async def find_places(admin: Admin, brokers: Iterable[int] | None = None) -> dict[Replica, Place]:
    """Return the log directories of all replicas of these brokers, or of all brokers, without dead brokers."""
    alive = [broker.node_id for broker in (await admin.describe_cluster()).brokers]
    wanted = alive if brokers is None else [broker for broker in sorted(set(brokers)) if broker in alive]
    places: dict[Replica, Place] = {}
    for log_dir in await admin.describe_log_dirs(wanted):
        for one in log_dir.replicas:
            replica = Replica(one.topic, one.partition, log_dir.broker_id)
            before = places.get(replica, Place())
            change = {"future": log_dir.path} if one.is_future else {"log_dir": log_dir.path}
            places[replica] = before._replace(**change)
    return places


async def prefer(admin: Admin, targets: Mapping[Replica, str]) -> None:
    """Request the log directories in which brokers create replicas that they do not have yet. Raises CommandError."""
    for replica, error in (await admin.alter_replica_log_dirs(targets)).items():
        if error is not None and not _may_come(error):
            raise CommandError(f"{targets[replica]}: {error}")


async def move(admin: Admin, targets: Mapping[Replica, str], timeout_s: float) -> None:
    """Start to move replicas to other directories; wait up to `timeout_s` for replicas that do not exist yet.

    Raises CommandError, which names the refused moves, or the replicas that are missing after the timeout.
    """
    deadline = time.monotonic() + timeout_s
    pending = dict(targets)
    while True:
        outcomes = await admin.alter_replica_log_dirs(pending)
        refused = [
            f"{pending[replica]}: {error}"
            for replica, error in outcomes.items()
            if error is not None and not _may_come(error)
        ]
        if refused:
            raise CommandError("; ".join(refused))
        pending = {replica: path for replica, path in pending.items() if outcomes[replica] is not None}
        if not pending:
            return
        if time.monotonic() > deadline:
            raise CommandError(
                f"replicas that do not exist after {timeout_s:g} s, so not moved to their log directories: "
                + ", ".join(map(str, pending))
            )
        await asyncio.sleep(POLL_S)


def _may_come(error: KafkaError) -> bool:
    return error.code == ErrorCode.REPLICA_NOT_AVAILABLE
