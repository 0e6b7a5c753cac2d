"""Faults of a cluster, for programs in other threads: a method for each verb.

    with cluster.faults.answer("Produce", error="NOT_LEADER_OR_FOLLOWER", count=3):
        producer.flush()

Every method blocks until the fault is in effect. What it returns heals the fault: by `heal()`, or at the end of a
`with` block. `heal_all` heals all faults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, Self

from ottla.testing.faults.answer import AnswerFault
from ottla.testing.faults.batches import CorruptFault, TruncateAction
from ottla.testing.faults.brokers import (
    KillFault,
    PauseFault,
    RestartAction,
    ResumeAction,
    StartAction,
    StopFault,
)
from ottla.testing.faults.clock_verbs import SkewClockFault
from ottla.testing.faults.connections import BlackholeFault, CutFault, DelayFault, RefuseFault, ThrottleFault
from ottla.testing.faults.delays import DelayCommitsFault, DelayReplicationFault
from ottla.testing.faults.description import Description
from ottla.testing.faults.disks import FailDiskFault, FillDiskFault, SlowDiskFault
from ottla.testing.faults.engine import Engine
from ottla.testing.faults.errors import UnknownFaultError
from ottla.testing.faults.moves import MoveControllerAction, MoveCoordinatorAction, MoveLeaderAction
from ottla.testing.faults.scene import Scene
from ottla.testing.faults.sessions import ExpireSessionAction
from ottla.testing.member import Member


class AppliedFault:
    """A fault that was injected. A context manager: the end of the block heals it."""

    def __init__(self, faults: Faults, state: Mapping[str, Any]) -> None:
        self.id: int = state["id"]
        self.verb: str = state["verb"]
        self.is_lasting: bool = state["is_lasting"]
        """Whether it stays in effect until it is healed; else it was over at once."""
        self.did: Mapping[str, Any] = state["did"]
        """What the verb has done at once: the number of connections that were reset, …."""
        self._faults = faults

    @property
    def state(self) -> Mapping[str, Any] | None:
        """The fault as in `Faults.active`; None if it is over."""
        return next((one for one in self._faults.active() if one["id"] == self.id), None)

    def heal(self) -> None:
        """End the fault. Does nothing if it is over."""
        try:
            self._faults.heal(self.id)
        except UnknownFaultError:
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.heal()

    def __repr__(self) -> str:
        return f"<fault {self.id}: {self.verb}>"


class Faults:
    """The faults of one cluster. Its methods may be called in every thread but the cluster's own.

    They raise FaultError, which is a ValueError, for options that are wrong.

    All of them take `for_s`: the fault is healed after this many seconds.
    """

    def __init__(self, call: Callable[..., Any], members: Mapping[int, Member]) -> None:
        """call: runs a coroutine function in the brokers' event loop. members: the brokers, which are not started."""
        self.scene = Scene(members, call)
        self.engine = Engine(self.scene)
        """Used in the brokers' event loop only."""
        self._call = call
        for broker_id, member in members.items():
            self.scene.prepare(broker_id, member.environment)

    # -- all faults --------------------------------------------------------------------------------------------------

    def apply(self, description: Description) -> AppliedFault:
        """Inject the fault of a description. The other methods do this with their arguments."""
        return AppliedFault(self, self._call(self.engine.apply, description))

    def active(self) -> list[dict[str, Any]]:
        """Return the faults in effect, the oldest first.

        Each has `id`, `verb`, `options`, `did`, `uses` (how often it has taken effect), `left` (how often it still
        does) and `left_s` (for how long); the last two are None without a limit.
        """
        return self._call(self._active)  # type: ignore[no-any-return]

    def heal(self, fault_id: int) -> None:
        """End a fault by its id. Raises UnknownFaultError if it is over."""
        self._call(self.engine.heal, fault_id)

    def heal_all(self) -> list[int]:
        """End all faults, the newest first, and return their ids. Raises ExceptionGroup if some cannot be healed."""
        return self._call(self.engine.heal_all)  # type: ignore[no-any-return]

    async def _active(self) -> list[dict[str, Any]]:
        return self.engine.active()

    # -- requests ----------------------------------------------------------------------------------------------------

    def answer(
        self,
        api: str,
        *,
        error: str | None = None,
        empty: bool = False,
        close: bool = False,
        delay_s: float = 0.0,
        applied: bool = False,
        client_id: str | None = None,
        topic: str | None = None,
        broker: int | None = None,
        count: int | None = None,
        for_s: float | None = None,
    ) -> AppliedFault:
        """Answer the next `count` requests of an API with an error, an empty answer, late, or not at all.

        api: Kafka's name of it, such as Produce. error: Kafka's name of an error; with NONE, clients are told that the
        request succeeded, although nothing was done. close: the connection is closed instead of an answer. delay_s:
        wait before. applied: the request is carried out first, and only its answer is replaced or late.

        client_id, topic, broker: only requests with this client id, that name this topic, to this broker.
        """
        return self.apply(
            AnswerFault(
                api=api,
                error=error,
                empty=empty,
                close=close,
                delay_s=delay_s,
                applied=applied,
                client_id=client_id,
                topic=topic,
                broker=broker,
                count=count,
                for_s=for_s,
            )
        )

    # -- connections -------------------------------------------------------------------------------------------------

    def cut(
        self,
        *,
        broker: int | None = None,
        client_id: str | None = None,
        peers: bool = False,
        peer: int | None = None,
        count: int | None = None,
    ) -> AppliedFault:
        """Reset the connections that exist; clients may connect again. `did["connections"]` is their number.

        These options are the same for all faults of connections. Without them, the connections of all clients are
        meant. broker: only those of this broker. client_id: only those with this client id. peers: those between
        brokers instead of those of clients. peer: those between this broker and `broker`.

        count: at most this many connections. A fault that lasts is healed when it has refused them, or they are closed.
        """
        return self.apply(CutFault(broker=broker, client_id=client_id, peers=peers, peer=peer, count=count))

    def refuse(
        self,
        *,
        broker: int | None = None,
        client_id: str | None = None,
        peers: bool = False,
        peer: int | None = None,
        keep: bool = False,
        count: int | None = None,
        for_s: float | None = None,
    ) -> AppliedFault:
        """Refuse new connections, and reset those that exist. keep: do not reset them. For the rest see `cut`."""
        return self.apply(
            RefuseFault(broker=broker, client_id=client_id, peers=peers, peer=peer, keep=keep, count=count, for_s=for_s)
        )

    def delay(
        self,
        delay_s: float,
        *,
        broker: int | None = None,
        client_id: str | None = None,
        peers: bool = False,
        peer: int | None = None,
        direction: Literal["both", "to", "from"] = "both",
        count: int | None = None,
        for_s: float | None = None,
    ) -> AppliedFault:
        """Deliver the bytes of connections late by `delay_s`. direction: only bytes to the broker, or from it.

        For the rest see `cut`.
        """
        return self.apply(
            DelayFault(
                delay_s=delay_s,
                broker=broker,
                client_id=client_id,
                peers=peers,
                peer=peer,
                direction=direction,
                count=count,
                for_s=for_s,
            )
        )

    def throttle(
        self,
        bytes_per_s: float,
        *,
        broker: int | None = None,
        client_id: str | None = None,
        peers: bool = False,
        peer: int | None = None,
        direction: Literal["both", "to", "from"] = "both",
        count: int | None = None,
        for_s: float | None = None,
    ) -> AppliedFault:
        """Limit the rate of each connection, in each direction. direction: only bytes to the broker, or from it.

        For the rest see `cut`.
        """
        return self.apply(
            ThrottleFault(
                bytes_per_s=bytes_per_s,
                broker=broker,
                client_id=client_id,
                peers=peers,
                peer=peer,
                direction=direction,
                count=count,
                for_s=for_s,
            )
        )

    def blackhole(
        self,
        *,
        broker: int | None = None,
        client_id: str | None = None,
        peers: bool = False,
        peer: int | None = None,
        direction: Literal["both", "to", "from"] = "both",
        count: int | None = None,
        for_s: float | None = None,
    ) -> AppliedFault:
        """Deliver nothing: connections stay open, as if the network had lost a route. Healing delivers what was sent.

        direction: only bytes to the broker, or from it, are lost. For the rest see `cut`.
        """
        return self.apply(
            BlackholeFault(
                broker=broker,
                client_id=client_id,
                peers=peers,
                peer=peer,
                direction=direction,
                count=count,
                for_s=for_s,
            )
        )

    # -- brokers -----------------------------------------------------------------------------------------------------

    def stop(self, broker: int, *, for_s: float | None = None) -> AppliedFault:
        """Stop a broker cleanly, as SIGTERM does: it hands over its partitions before. Healing starts it again."""
        return self.apply(StopFault(broker=broker, for_s=for_s))

    def kill(self, broker: int, *, for_s: float | None = None) -> AppliedFault:
        """End a broker as SIGKILL does. Healing starts it again, on its port and with its data."""
        return self.apply(KillFault(broker=broker, for_s=for_s))

    def pause(self, broker: int, *, for_s: float | None = None) -> AppliedFault:
        """Pause a broker as SIGSTOP does: its connections stay open and nobody answers. Healing resumes it."""
        return self.apply(PauseFault(broker=broker, for_s=for_s))

    def start(self, broker: int) -> AppliedFault:
        """Start a broker that is stopped or killed, and wait until it serves clients."""
        return self.apply(StartAction(broker=broker))

    def resume(self, broker: int) -> AppliedFault:
        """Resume a paused broker, as SIGCONT does."""
        return self.apply(ResumeAction(broker=broker))

    def restart(self, broker: int, *, kill: bool = False) -> AppliedFault:
        """Stop a broker cleanly, or as SIGKILL does, and start it again, on its port and with its data."""
        return self.apply(RestartAction(broker=broker, kill=kill))

    # -- disks and logs ----------------------------------------------------------------------------------------------

    def fill_disk(
        self,
        *,
        broker: int | None = None,
        log_dir: str | None = None,
        room_bytes: int = 0,
        for_s: float | None = None,
    ) -> AppliedFault:
        """Let a disk be full (ENOSPC) when `room_bytes` more have been written. Healing gives room again.

        broker: only this broker. log_dir: only this log directory, by its path; each log directory is a disk.
        """
        return self.apply(FillDiskFault(broker=broker, log_dir=log_dir, room_bytes=room_bytes, for_s=for_s))

    def fail_disk(
        self,
        operation: Literal["read", "write", "fsync", "all"] = "all",
        *,
        broker: int | None = None,
        log_dir: str | None = None,
        count: int | None = None,
        for_s: float | None = None,
    ) -> AppliedFault:
        """Let the next `count` operations of a disk fail with an I/O error (EIO).

        As in Kafka, the broker then takes the log directory offline until it is restarted, and ends if it has no other.
        Healing starts a broker again that has ended.
        broker, log_dir: see `fill_disk`.
        """
        return self.apply(FailDiskFault(operation=operation, broker=broker, log_dir=log_dir, count=count, for_s=for_s))

    def slow_disk(
        self, delay_s: float, *, broker: int | None = None, log_dir: str | None = None, for_s: float | None = None
    ) -> AppliedFault:
        """Let each fsync, and each read, take longer by `delay_s`. broker, log_dir: see `fill_disk`."""
        return self.apply(SlowDiskFault(delay_s=delay_s, broker=broker, log_dir=log_dir, for_s=for_s))

    def corrupt(
        self, topic: str, partition: int = 0, offset: int = 0, *, broker: int, for_s: float | None = None
    ) -> AppliedFault:
        """Change a byte of the batch with this offset, in the log file of the replica on `broker`.

        Clients that check CRCs report the batch; recovery after a crash removes it, and all that is after it. Healing
        restores the byte if the batch is still there.
        """
        return self.apply(CorruptFault(topic=topic, partition=partition, offset=offset, broker=broker, for_s=for_s))

    def truncate(self, topic: str, partition: int = 0, offset: int = 0, *, broker: int) -> AppliedFault:
        """Cut the log file of the replica on `broker` off in the middle of the batch with this offset.

        The broker must have been stopped or killed before.
        """
        return self.apply(TruncateAction(topic=topic, partition=partition, offset=offset, broker=broker))

    # -- time --------------------------------------------------------------------------------------------------------

    def skew_clock(self, offset_s: float, *, broker: int | None = None, for_s: float | None = None) -> AppliedFault:
        """Set the clock of brokers forward, or back if `offset_s` is negative: for timestamps and retention."""
        return self.apply(SkewClockFault(offset_s=offset_s, broker=broker, for_s=for_s))

    def delay_commits(
        self,
        delay_s: float,
        *,
        group: str | None = None,
        broker: int | None = None,
        count: int | None = None,
        for_s: float | None = None,
    ) -> AppliedFault:
        """Let the coordinator take `delay_s` for the next `count` commits of offsets. group: only of this group.

        broker: only commits to this broker.
        """
        return self.apply(DelayCommitsFault(delay_s=delay_s, group=group, broker=broker, count=count, for_s=for_s))

    def delay_replication(
        self, delay_s: float, *, broker: int | None = None, follower: int | None = None, for_s: float | None = None
    ) -> AppliedFault:
        """Let each fetch of followers wait for `delay_s`: the high watermark lags, and consumers see records late.

        broker: only fetches from this leader. follower: only fetches by this broker.
        """
        return self.apply(DelayReplicationFault(delay_s=delay_s, broker=broker, follower=follower, for_s=for_s))

    # -- leaders and sessions ----------------------------------------------------------------------------------------

    def expire_session(self, broker: int) -> AppliedFault:
        """Let the registry session of a broker expire. The broker registers again, in a new session."""
        return self.apply(ExpireSessionAction(broker=broker))

    def move_leader(self, topic: str, partition: int = 0, *, to: int | None = None) -> AppliedFault:
        """Let another in-sync replica lead a partition: broker `to`, or any. `did` has `from` and `to`."""
        return self.apply(MoveLeaderAction(topic=topic, partition=partition, to=to))

    def move_coordinator(
        self, group: str | None = None, *, transactional_id: str | None = None, to: int | None = None
    ) -> AppliedFault:
        """Let another broker be the coordinator of a group or of a transactional id. `did` has `from` and `to`."""
        return self.apply(MoveCoordinatorAction(group=group, transactional_id=transactional_id, to=to))

    def move_controller(self, *, to: int | None = None) -> AppliedFault:
        """Let another broker be the controller: broker `to`, or any. `did` has `from` and `to`."""
        return self.apply(MoveControllerAction(to=to))
