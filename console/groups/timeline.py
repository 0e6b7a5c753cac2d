"""What happened in a group while it was watched: states, members that came and went, epochs, partitions that moved.

It compares each reading with the one before, so that a change is at most as old as the time between two readings, and a
state that lasts shorter may be missed. Bounded: `MAX_EVENTS` events, `MAX_STATES` states, `MAX_LANES` members.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from client.admin.types import GroupDescription, GroupMember

MAX_EVENTS: Final = 300
MAX_STATES: Final = 300
MAX_LANES: Final = 200


class Event(NamedTuple):
    """A change. kind: "state", "joined", "left", "assigned", "epoch" or "assignor"."""

    at_ms: int
    kind: str
    text: str
    member_id: str | None = None


class Lane(NamedTuple):
    """A member while it was seen. `counts`: from which time on it had how many partitions."""

    member_id: str
    client_id: str
    host: str
    from_ms: int
    to_ms: int | None
    counts: list[tuple[int, int]]


class StateSince(NamedTuple):
    """A state of the group, until the next one."""

    from_ms: int
    state: str


@dataclass
class _Seen:
    member: GroupMember
    from_ms: int
    counts: list[tuple[int, int]]

    def lane(self, to_ms: int | None) -> Lane:
        return Lane(self.member.member_id, self.member.client_id, self.member.host, self.from_ms, to_ms, self.counts)


class Timeline:
    """What happened in one group."""

    def __init__(self) -> None:
        self.since_ms: int | None = None
        """The time of the first reading."""
        self.events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self.states: deque[StateSince] = deque(maxlen=MAX_STATES)
        self._gone: deque[Lane] = deque(maxlen=MAX_LANES)
        self._present: dict[str, _Seen] = {}
        self._last: GroupDescription | None = None

    @property
    def lanes(self) -> list[Lane]:
        """The members: those that left first, the newest `MAX_LANES`."""
        present = [one.lane(None) for one in self._present.values()]
        return [*self._gone, *present][-MAX_LANES:]

    def add(self, at_ms: int, group: GroupDescription) -> None:
        """Add a reading."""
        last = self._last
        if last is None:
            self.since_ms = at_ms
        if last is None or last.state != group.state:
            self.states.append(StateSince(at_ms, group.state))
            self._note(at_ms, "state", group.state if last is None else f"{last.state} → {group.state}")
        if last is not None:
            self._note_changes(at_ms, last, group)
        members = {one.member_id: one for one in group.members}
        for member_id in [name for name in self._present if name not in members]:
            self._leave(at_ms, member_id)
        for member in group.members:
            self._see(at_ms, member, is_first=last is None)
        self._last = group

    def _note_changes(self, at_ms: int, last: GroupDescription, group: GroupDescription) -> None:
        if last.epoch != group.epoch:
            self._note(at_ms, "epoch", f"group epoch {last.epoch} → {group.epoch}")
        if last.assignment_epoch != group.assignment_epoch:
            text = f"target assignment of epoch {group.assignment_epoch}"
            self._note(at_ms, "epoch", text)
        if last.assignor != group.assignor and group.assignor:
            self._note(at_ms, "assignor", f"assignor {group.assignor}")

    def _leave(self, at_ms: int, member_id: str) -> None:
        seen = self._present.pop(member_id)
        self._gone.append(seen.lane(at_ms))
        self._note(at_ms, "left", f"{_name(seen.member)} left", member_id)

    def _see(self, at_ms: int, member: GroupMember, *, is_first: bool) -> None:
        seen = self._present.get(member.member_id)
        count = len(member.assignment or ())
        if seen is None:
            self._present[member.member_id] = _Seen(member, at_ms, [(at_ms, count)])
            text = f"{_name(member)} was there" if is_first else f"{_name(member)} joined"
            self._note(at_ms, "joined", f"{text} from {member.host.removeprefix('/')}", member.member_id)
            return
        self._note_assignment(at_ms, seen, member)
        seen.member = member

    def _note_assignment(self, at_ms: int, seen: _Seen, member: GroupMember) -> None:
        before, after = set(seen.member.assignment or ()), set(member.assignment or ())
        if before == after:
            return
        words = [
            f"{verb} {_some(sorted(map(str, changed)))}"
            for verb, changed in (("lost", before - after), ("got", after - before))
            if changed
        ]
        self._note(at_ms, "assigned", f"{_name(member)} {' and '.join(words)}", member.member_id)
        seen.counts = [*seen.counts[-MAX_STATES:], (at_ms, len(after))]

    def _note(self, at_ms: int, kind: str, text: str, member_id: str | None = None) -> None:
        self.events.append(Event(at_ms, kind, text, member_id))


def _name(member: GroupMember) -> str:
    """Return a name for a member: its client id is not unique, so the end of the member id is added."""
    if member.instance_id:
        return member.instance_id
    return f"{member.client_id or 'member'} (…{member.member_id[-6:]})"


def _some(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
