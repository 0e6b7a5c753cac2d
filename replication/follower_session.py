"""A follower's side of an incremental fetch session (KIP-227): what the leader has been told, and the next epoch.

The first request names every partition; the later ones only those that are new, have got on or are gone. Where leader
and follower disagree, the session begins anew.
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
    """What is asked of one partition."""

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
        """What the leader knows, once the request under way has arrived."""
        self.by_id = True
        """Whether topics are named by id; a session cannot change that."""

    @property
    def is_incremental(self) -> bool:
        """Whether the next request holds changes only."""
        return self.epoch != INITIAL_EPOCH

    def changes(
        self, wanted: dict[Key, WantedPartition], *, by_id: bool
    ) -> tuple[dict[Key, WantedPartition], list[tuple[Key, WantedPartition]]]:
        """(what the next request names, what it forgets), for a request that wants all of `wanted`."""
        if by_id != self.by_id:
            self.reset()
            self.by_id = by_id
        if not self.is_incremental:
            self.known = wanted
            return wanted, []
        known = self.known  # of thousands most are the same objects
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
        """The leader's answer is there; after an error the next request begins a new session."""
        if error_code != ErrorCode.NONE:
            # After a lost answer the leader still has the session: naming it makes it free the place.
            keeps_id = error_code != ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            self.reset(self.session_id if keeps_id else NO_SESSION)
        elif session_id == NO_SESSION:
            self.reset()  # no place for a session: each request names everything
        elif self.is_incremental:
            self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1
        else:
            self.session_id = session_id
            self.epoch = 1

    def reset(self, session_id: int = NO_SESSION) -> None:
        """Begin anew; `session_id`: the leader's old one, to be closed."""
        self.session_id = session_id
        self.epoch = INITIAL_EPOCH
        self.known = {}
