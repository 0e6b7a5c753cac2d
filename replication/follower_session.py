"""The follower's side of an incremental fetch session (KIP-227): what the leader knows, and the next epoch.

The first request names every partition. Later requests name only partitions that are new, changed or removed. If leader
and follower disagree, a new session begins.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.error_codes import ErrorCode

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1

Key = tuple[str, int]


class WantedPartition(NamedTuple):
    """What to request for one partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class FollowerSession:
    """The session of one connection. `session_id` and `epoch` are those of the next request."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.known: dict[Key, WantedPartition] = {}
        """What the leader knows once the request in flight has arrived."""
        self.by_id = True
        """Whether requests name topics by id; this cannot change within a session."""

    @property
    def is_incremental(self) -> bool:
        """Whether the next request holds changes only."""
        return self.epoch != INITIAL_EPOCH

    def changes(
        self, wanted: dict[Key, WantedPartition], *, by_id: bool
    ) -> tuple[dict[Key, WantedPartition], list[tuple[Key, WantedPartition]]]:
        """Return (partitions to name, partitions to forget) for a request that wants all of `wanted`."""
        if by_id != self.by_id:
            self.reset()
            self.by_id = by_id
        if not self.is_incremental:
            self.known = wanted
            return wanted, []
        known = self.known  # most of the thousands of values are the same objects
        others = [(key, one) for key, one in wanted.items() if known.get(key) is not one]
        named = {key: one for key, one in others if known.get(key) != one}
        forgotten = [(key, known[key]) for key in known if key not in wanted]
        forgotten += [
            (key, known[key])
            for key, one in named.items()
            if key in known and known[key].topic_id != one.topic_id  # the topic was recreated
        ]
        self.known = wanted
        return named, forgotten

    def answered(self, error_code: int, session_id: int) -> None:
        """Process the session part of the leader's answer. After an error, the next request begins a new session."""
        if error_code != ErrorCode.NONE:
            # If an answer was lost, the leader still has the session: the id tells the leader to free it.
            keeps_id = error_code != ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            self.reset(self.session_id if keeps_id else NO_SESSION)
        elif session_id == NO_SESSION:
            self.reset()  # the leader has no room for a session: each request names everything
        elif self.is_incremental:
            self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1
        else:
            self.session_id = session_id
            self.epoch = 1

    def reset(self, session_id: int = NO_SESSION) -> None:
        """Begin a new session. session_id: the leader's old session, which the next request closes."""
        self.session_id = session_id
        self.epoch = INITIAL_EPOCH
        self.known = {}
