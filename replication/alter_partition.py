"""How a leader asks for another ISR: the seam between partitions and whoever decides.

From inter.broker.protocol.version 2.7 on that is the controller (`alter_partition_requests`), before it the leader
writes the partition's state to the registry itself (broker/isr_writer).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from protocol.error_codes import code_name


class LeaderAndIsr(NamedTuple):
    """A leader and its ISR, proposed or decided."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    """Of the state that is to be changed, or of the one that is decided (in ZooKeeper the version of the znode)."""
    broker_epochs: tuple[int, ...] = ()
    """Of the ISR, in its order; -1 where unknown: the controller refuses who has restarted since (KIP-903)."""


class IsrChange(NamedTuple):
    """A proposal, and what it is about."""

    topic: str
    topic_id: bytes
    partition: int
    proposed: LeaderAndIsr
    controller_epoch: int
    """Of the controller that made the leader, as the state's znode tells it."""


class IsrChangeRefusedError(Exception):
    """The change was not made, or it is unknown whether it was; `code` says why."""

    def __init__(self, code: int, message: str = "") -> None:
        self.code = code
        super().__init__(message or code_name(code))


class AlterPartition(Protocol):
    """Whoever decides about ISRs."""

    async def submit(self, change: IsrChange) -> LeaderAndIsr:
        """Ask for a change and wait for the decision, however long that takes. Raises IsrChangeRefusedError.

        One change of a partition at a time.
        """
        ...

    async def run(self) -> None:
        """The work that goes with it, for as long as the broker runs."""
        ...
