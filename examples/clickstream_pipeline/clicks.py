"""What the visitors of a shop send: sessions that walk from page to page, some as far as a purchase.

A click is JSON, its key the session:

    {"event_id": "…", "session": "s42", "user": "u7", "type": "page_view", "page": "/product/12", "status": 200,
     "duration_ms": 83, "event_time": "2026-03-02T09:00:00.250Z"}

Some are sent later than they happened, a few too late for any watermark. Some records are no JSON, some are JSON that
is no click. Everything random comes from one seed; time is that of the events, and nothing here looks at a clock.
"""

import heapq
import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

START_MS = int(datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp() * 1000)
LATE_MS = 60_000  # a late click comes so late at most, and a watermark of three minutes waits for it
TOO_LATE_MS = (6 * 60_000, 10 * 60_000)
CLOSING_TYPE = "end_of_stream"
CLICKS_PER_SESSION = 3.9  # on average: what the walk below comes to
USERS, CATEGORIES, PRODUCTS = 5_000, 8, 40
USUAL_ERRORS, OUTAGE_ERRORS = 0.005, 0.35
USUAL_ABANDONS, SPIKE_ABANDONS = 0.2, 0.95
THINKING_MS, PAYING_MS = 9_000, 1_500

_NEXT = {  # page → where to, and how often; the rest leaves
    "home": (("category", 0.55), ("search", 0.2), ("product", 0.15)),
    "search": (("product", 0.7), ("category", 0.1)),
    "category": (("product", 0.7), ("home", 0.05)),
    "product": (("cart", 0.35), ("category", 0.25), ("product", 0.1)),
    "cart": (("checkout", 0.75), ("product", 0.1)),
    "checkout": (("purchase", 1.0),),
    "purchase": (),
}
_TYPES = {"cart": "add_to_cart", "checkout": "checkout", "purchase": "purchase"}


class Kind(StrEnum):
    """What a record of the topic is."""

    CLICK = "click"
    TOO_LATE = "too late"  # a click, but no window waits for it
    NOT_JSON = "not JSON"
    NOT_A_CLICK = "not a click"


class Incident(NamedTuple):
    """Something is wrong in the shop from `start_ms` until `end_ms` (of event time); `name` is that of its alert."""

    name: str
    start_ms: int
    end_ms: int


class ClickRecord(NamedTuple):
    """A record to send at `send_ms`, in event time."""

    send_ms: int
    kind: Kind
    key: bytes
    value: bytes


def incidents(start_ms: int, duration_ms: int) -> tuple[Incident, Incident]:
    """What goes wrong in a run: an outage, later a payment page that nobody gets through."""

    def part(name: str, begin: float, end: float) -> Incident:
        return Incident(name, start_ms + int(begin * duration_ms), start_ms + int(end * duration_ms))

    return part("error_rate", 0.3, 0.45), part("cart_abandonment", 0.6, 0.8)


def clickstream(seed: int, clicks_per_s: float, wrong: Sequence[Incident]) -> Iterator[ClickRecord]:
    """Records without end, in the order in which they are sent. `clicks_per_s` is a mean, in event time."""
    return _Shop(random.Random(seed), clicks_per_s, wrong).records()


def closing_click(when_ms: int) -> bytes:
    """A click long after all others: it moves the watermark past their windows, so that those end."""
    return _click("closing", "closing", "closing", CLOSING_TYPE, "", 200, 0, when_ms)


class _Shop:
    def __init__(self, rng: random.Random, clicks_per_s: float, wrong: Sequence[Incident]) -> None:
        self._random = rng
        self._between_sessions_ms = 1000 * CLICKS_PER_SESSION / clicks_per_s
        self._wrong = wrong
        self._sessions = 0
        self._clicks = 0
        self._next_session_ms = float(START_MS)
        self._walking: list[tuple[int, int, str]] = []  # when, session, page
        self._late: list[tuple[int, int, ClickRecord]] = []

    def records(self) -> Iterator[ClickRecord]:
        while True:
            if not self._walking or self._next_session_ms < self._walking[0][0]:
                self._begin_session()
                continue
            now_ms, session, page = heapq.heappop(self._walking)
            while self._late and self._late[0][0] <= now_ms:
                yield heapq.heappop(self._late)[2]
            yield from self._sent(self._visit(now_ms, session, page))
            if self._random.random() < 0.015:
                yield self._broken(now_ms, session)

    def _begin_session(self) -> None:
        now_ms = int(self._next_session_ms)
        self._sessions += 1
        heapq.heappush(self._walking, (now_ms, self._sessions, "home"))
        self._next_session_ms += self._random.expovariate(1 / self._between_sessions_ms)

    def _visit(self, now_ms: int, session: int, page: str) -> ClickRecord:
        outage = self._is_wrong("error_rate", now_ms)
        failed = self._random.random() < (OUTAGE_ERRORS if outage else USUAL_ERRORS)
        self._clicks += 1
        value = _click(
            f"{self._clicks:08d}-{self._random.getrandbits(32):08x}",
            f"s{session}",
            f"u{session * 7919 % USERS}",
            _TYPES.get(page, "page_view"),
            self._address(page),
            500 if failed else 200,
            int(self._random.lognormvariate(4.5, 0.6)) * (8 if outage else 1),
            now_ms,
        )
        self._go_on(now_ms, session, page)
        return ClickRecord(now_ms, Kind.CLICK, b"s%d" % session, value)

    def _go_on(self, now_ms: int, session: int, page: str) -> None:
        thinking_ms = PAYING_MS if page == "checkout" else THINKING_MS
        then_ms = now_ms + 500 + int(self._random.expovariate(1 / thinking_ms))
        if page == "checkout":
            abandons = SPIKE_ABANDONS if self._is_wrong("cart_abandonment", now_ms) else USUAL_ABANDONS
            if self._random.random() < abandons:
                return
        chance = self._random.random()
        for following, share in _NEXT[page]:
            chance -= share
            if chance < 0:
                heapq.heappush(self._walking, (then_ms, session, following))
                return

    def _address(self, page: str) -> str:
        if page == "category":
            return f"/category/{self._random.randrange(CATEGORIES)}"
        if page == "product":
            return f"/product/{int(self._random.triangular(0, PRODUCTS, 0))}"
        return "/" if page == "home" else f"/{page}"

    def _is_wrong(self, name: str, now_ms: int) -> bool:
        return any(one.name == name and one.start_ms <= now_ms < one.end_ms for one in self._wrong)

    def _sent(self, record: ClickRecord) -> Iterator[ClickRecord]:
        """Now, or later."""
        chance = self._random.random()
        if chance >= 0.034:
            yield record
            return
        kind, delay_ms = Kind.CLICK, self._random.randint(1_000, LATE_MS)
        if chance < 0.004:
            kind, delay_ms = Kind.TOO_LATE, self._random.randint(*TOO_LATE_MS)
        later = record._replace(kind=kind, send_ms=record.send_ms + delay_ms)
        heapq.heappush(self._late, (later.send_ms, self._clicks, later))

    def _broken(self, now_ms: int, session: int) -> ClickRecord:
        when = _iso(now_ms)
        fields = {"event_id": f"x{self._clicks}", "session": f"s{session}", "type": "page_view", "event_time": when}
        kind, value = self._random.choice(
            (
                (Kind.NOT_JSON, json.dumps(fields)[:-9].encode()),
                (Kind.NOT_JSON, f"{when} WARN shop.tracker: buffer is full, 12 events dropped".encode()),
                (Kind.NOT_JSON, self._random.randbytes(24).replace(b"{", b"\xff") + b"\x00"),
                (Kind.NOT_A_CLICK, json.dumps(fields | {"status": "two hundred"}).encode()),
                (Kind.NOT_A_CLICK, json.dumps(fields | {"event_time": "yesterday"}).encode()),
                (Kind.NOT_A_CLICK, json.dumps({name: fields[name] for name in ("type", "event_time")}).encode()),
            )
        )
        return ClickRecord(now_ms, kind, b"s%d" % session, value)


def _iso(when_ms: int) -> str:
    return datetime.fromtimestamp(when_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _click(
    event_id: str, session: str, user: str, kind: str, page: str, status: int, duration_ms: int, when_ms: int
) -> bytes:
    fields = {
        "event_id": event_id,
        "session": session,
        "user": user,
        "type": kind,
        "page": page,
        "status": status,
        "duration_ms": duration_ms,
        "event_time": _iso(when_ms),
    }
    return json.dumps(fields, separators=(",", ":")).encode()
