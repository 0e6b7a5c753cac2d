"""The interface by which a leader changes the ISR of a partition.

From inter.broker.protocol.version 2.7 on, the controller decides (`alter_partition_requests`). Before 2.7, the leader
writes the partition state to the registry itself (`broker/cluster/isr_writer`).
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
    """Epoch of the state to change, or of the decided state (in ZooKeeper, the version of the znode)."""
    broker_epochs: tuple[int, ...] = ()
    """Broker epochs of the ISR, in the same order; -1 if unknown.

    The controller refuses a replica whose broker has restarted since (KIP-903).
    """


class IsrChange(NamedTuple):
    """A proposed ISR of one partition."""

    topic: str
    topic_id: bytes
    partition: int
    proposed: LeaderAndIsr
    controller_epoch: int
    """Epoch of the controller that elected the leader, as in the state znode."""


class IsrChangeRefusedError(Exception):
    """The change was not made, or its outcome is unknown; `code` says why."""

    def __init__(self, code: int, message: str = "") -> None:
        self.code = code
        super().__init__(message or code_name(code))


class AlterPartition(Protocol):
    """Decides on changes of ISRs."""

    async def submit(self, change: IsrChange) -> LeaderAndIsr:
        """Propose a change and wait for the decision, without a timeout. Raises IsrChangeRefusedError.

        Submit only one change per partition at a time.
        """
        ...

    async def run(self) -> None:
        """Do the background work until cancelled."""
        ...
