"""Incremental fetch sessions (KIP-227): a client names its partitions once and then sends and receives only changes.

A session has a random id, and an epoch that is incremented with every request, so that a lost answer is detected. The
number of sessions is limited by `max.incremental.fetch.session.cache.slots`. A session can be evicted for a new one if
it has not been used for two minutes, or if the new session is a follower's and this one is not, or if both are of the
same kind and this one is smaller and older than two minutes.

A fetch reads only the partitions of a session that may have changed; the others are idle (see
`IdlePartitions`). A change of a partition wakes the session. Every ten seconds a session reads all of its
partitions, because retention advances log start offsets without waking sessions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from protocol.error_codes import ErrorCode
from replication.fetch import CONSUMER, FetchedPartition, FetchPartition
from replication.idle_partitions import IdlePartitions, TopicPartition

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
EVICTION_MS = 120_000
LOOK_AGAIN_MS = 10_000
_MAX_EPOCH = 2**31 - 1

Key = tuple[str | bytes, int]
"""A partition in a session: the topic (its name before v13, its id since v13) and the partition number."""


class FetchSessionError(Exception):
    """The session cannot be used; the whole request fails with `code`."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class CachedPartition:
    """A partition of a session: the client's request for it, and the last values sent to the client."""

    __slots__ = ("high_watermark", "log_start_offset", "request")

    def __init__(self, request: FetchPartition) -> None:
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1

    def is_news(self, fetched: FetchedPartition) -> bool:
        """Return whether the answer has anything that the client does not know."""
        return (
            fetched.size_bytes > 0
            or fetched.error is not None
            or fetched.diverging is not None
            or fetched.preferred_replica is not None
            or fetched.high_watermark != self.high_watermark
            or fetched.log_start_offset != self.log_start_offset
        )

    def must_tell(self, fetched: FetchedPartition) -> bool:
        """Return whether the answer has anything that the client does not know, and note the values as sent."""
        tell = self.is_news(fetched)
        if fetched.error is None:
            self.high_watermark = fetched.high_watermark
            self.log_start_offset = fetched.log_start_offset
        else:
            self.high_watermark = -1  # so that the end of the error is sent, too
        return tell


class FetchSession:
    """One client's session; implements `Reader`."""

    __slots__ = (
        "_allowed_for",
        "_idle_at",
        "_places",
        "_refused",
        "awake",
        "created_ms",
        "epoch",
        "id",
        "is_follower",
        "last_fetch_ms",
        "last_used_ms",
        "looked_at_all_ms",
        "partitions",
        "replica_id",
        "uses_topic_ids",
    )

    def __init__(
        self, session_id: int, now_ms: int, places: IdlePartitions, *, is_follower: bool, uses_topic_ids: bool
    ) -> None:
        """places: the idle partitions of all sessions."""
        self.id = session_id
        self.epoch = 1
        """The epoch that the next request must carry."""
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.looked_at_all_ms = now_ms
        self.replica_id = CONSUMER
        self.last_fetch_ms = 0
        self.partitions: dict[Key, CachedPartition] = {}
        self.awake: dict[Key, CachedPartition] = {}
        """The partitions to read, in this order; one that returned data moves to the end, for fairness."""
        self._places = places
        self._allowed_for: object = None
        self._refused: dict[Key, CachedPartition] = {}
        """The partitions that the client may not read: they are not read, and every answer says so."""
        self._idle_at: dict[TopicPartition, Key] = {}

    def key_of(self, request: FetchPartition) -> Key:
        """Return the partition's key in this session."""
        return (request.topic_id if self.uses_topic_ids else request.topic, request.partition)

    def update(self, wanted: Iterable[tuple[Key, FetchPartition]], forgotten: Iterable[Key]) -> None:
        """Apply the changes of a request."""
        for key in forgotten:
            cached = self.partitions.pop(key, None)
            if cached is not None:
                self._leave(cached)
                self.awake.pop(key, None)
                self._refused.pop(key, None)
        for key, request in wanted:
            cached = self.partitions.get(key)
            if cached is None:
                cached = self.partitions[key] = CachedPartition(request)
            else:
                self._leave(cached)
                cached.request = request
            self.awake.setdefault(key, cached)

    def refuse(self, may_read: Callable[[FetchPartition], bool], allowed_for: object) -> list[FetchPartition]:
        """Decide again what the client may read; return what it may not.

        allowed_for: a value that is different when another client uses the session or its rights have changed. Then
        idle partitions, which are not asked about at every request, are decided again, too.
        """
        self.awake |= self._refused
        self._refused = {}
        if allowed_for != self._allowed_for:
            self._allowed_for = allowed_for
            self.wake_all()
        for key, cached in list(self.awake.items()):
            if not may_read(cached.request):
                cached.high_watermark = -1  # so that the end of the error is sent, too
                self._refused[key] = self.awake.pop(key)
        return [cached.request for cached in self._refused.values()]

    def wanted(self) -> list[FetchPartition]:
        """See `Reader`."""
        return [cached.request for cached in self.awake.values()]

    def move_to_end(self, key: Key) -> None:
        """Read this partition after the others next time, because it returned data."""
        self.awake[key] = self.awake.pop(key)

    def advance(self, now_ms: int) -> None:
        """Increment the epoch for an accepted request."""
        self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1
        self.last_used_ms = now_ms
        if now_ms - self.looked_at_all_ms > LOOK_AGAIN_MS:
            self.looked_at_all_ms = now_ms
            self.wake_all()

    # -- idle --------------------------------------------------------------------------------------------------------

    @property
    def has_idle(self) -> bool:
        """See `Reader`."""
        return bool(self._idle_at)

    def mark_idle(self, request: FetchPartition) -> None:
        """Stop reading a partition until `woken`: the client has all of its data."""
        key = self.key_of(request)
        del self.awake[key]
        self._idle_at[request.topic, request.partition] = key

    def woken(self, key: TopicPartition) -> None:
        """See `Reader`."""
        found = self._idle_at.pop(key)
        self.awake[found] = self.partitions[found]

    def wake_all(self) -> None:
        """Read every partition next time."""
        for key in list(self._idle_at):
            self._places.remove(key, self)
            self.woken(key)

    def _leave(self, cached: CachedPartition) -> None:
        key = (cached.request.topic, cached.request.partition)
        if self._idle_at.pop(key, None) is not None:
            self._places.remove(key, self)


class FetchSessions:
    """The sessions of one broker."""

    def __init__(
        self, slots: int, now_ms: Callable[[], int], rng: random.Random, places: IdlePartitions | None = None
    ) -> None:
        """places: the idle partitions of all sessions."""
        self._places = IdlePartitions() if places is None else places
        self._slots = slots
        self._now_ms = now_ms
        self._random = rng
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def use(self, session_id: int, epoch: int, *, uses_topic_ids: bool) -> FetchSession:
        """Return the session of an incremental request. Raises FetchSessionError."""
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise FetchSessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.advance(self._now_ms())
        return session

    def create(self, size: int, *, is_follower: bool, uses_topic_ids: bool) -> FetchSession | None:
        """Create a session for `size` partitions. Return None if all slots are in use."""
        now_ms = self._now_ms()
        if len(self._sessions) >= self._slots and not self._evict(size, now_ms, is_follower=is_follower):
            return None
        session_id = self._random.randint(1, 2**31 - 1)
        while session_id in self._sessions:
            session_id = self._random.randint(1, 2**31 - 1)
        session = FetchSession(session_id, now_ms, self._places, is_follower=is_follower, uses_topic_ids=uses_topic_ids)
        self._sessions[session_id] = session
        return session

    def topics_of(self, session_id: int) -> set[str]:
        """Return the names of the topics in a session; none if there is no session with this id."""
        session = self._sessions.get(session_id)
        return set() if session is None else {cached.request.topic for cached in session.partitions.values()}

    def remove(self, session_id: int) -> None:
        """Remove a session."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.wake_all()

    def _evict(self, size: int, now_ms: int, *, is_follower: bool) -> bool:
        if not self._sessions:
            return False
        stale = min(self._sessions.values(), key=lambda session: session.last_used_ms)
        if now_ms - stale.last_used_ms > EVICTION_MS:
            self.remove(stale.id)
            return True
        evictable = [
            session
            for session in self._sessions.values()
            if (is_follower and not session.is_follower)
            or (
                session.is_follower == is_follower
                and now_ms - session.created_ms > EVICTION_MS
                and len(session.partitions) < size
            )
        ]
        if not evictable:
            return False
        smallest = min(evictable, key=lambda session: (session.is_follower, len(session.partitions)))
        self.remove(smallest.id)
        return True
