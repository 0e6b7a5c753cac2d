"""The arithmetic of quotas: rates over a sliding window, and token buckets. All times are seconds of one clock.

A rate is the sum of samples, divided by the time since the first of them, but at least by `samples - 1` sample lengths.
A sample ends `sample_s` after its first value; a new one starts with the next value. A sample is dropped when its last
value is `samples` sample lengths old. A rate above its quota is throttled for the time after which it would be at the
quota if nothing else was counted.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

INT_MAX = 2**31 - 1
NEVER_S = float("-inf")


class Window(NamedTuple):
    """How many samples a rate has (at least 1), and the length of each of them."""

    samples: int
    sample_s: float

    @property
    def full_s(self) -> float:
        """The shortest time that a rate is calculated over."""
        return (self.samples - 1) * self.sample_s


class SampledRate:
    """A sum of values over a sliding window, and the quota of its rate.

    `record` counts a value. `ClientQuotas.settle`, which is on the path of every request, does the same without a call.
    """

    __slots__ = (
        "_expiry_s",
        "_full_s",
        "_older",
        "_older_total",
        "_quota",
        "_sample_s",
        "_start_s",
        "allowed",
        "ends_s",
        "last_s",
        "total",
    )

    def __init__(self, window: Window, quota: float) -> None:
        self._sample_s = window.sample_s
        self._full_s = window.full_s
        self._expiry_s = window.samples * window.sample_s
        self._older: deque[tuple[float, float, float]] = deque()  # start, last value's time and sum of earlier samples
        self._older_total = 0.0
        self._start_s = NEVER_S
        self.ends_s = NEVER_S
        """When the last sample ends: a value from then on belongs to a new sample."""
        self.last_s = NEVER_S
        """When the last value was counted."""
        self.total = 0.0
        """The sum of all samples, with those that are expired but not dropped yet."""
        self.quota = quota

    @property
    def quota(self) -> float:
        """The quota, a second."""
        return self._quota

    @quota.setter
    def quota(self, quota: float) -> None:
        self._quota = quota
        self.allowed = quota * self._full_s
        """A `total` that is not larger is never above the quota."""

    def record(self, value: float, now_s: float) -> float:
        """Count a value; return the seconds of throttling, 0 if the rate is not above the quota."""
        if now_s >= self.ends_s:
            self.start_sample(now_s)
        self.last_s = now_s
        self.total = total = self.total + value
        return 0.0 if total <= self.allowed else self.throttle_s(now_s)

    def take_back(self, value: float) -> None:
        """Undo the last `record` of this value."""
        self.total -= value

    def throttle_s(self, now_s: float) -> float:
        """Return the seconds of throttling now."""
        self._drop_expired(now_s)
        window_s = self._window_s(now_s)
        if self.total <= self._quota * window_s:
            return 0.0
        return self.total / self._quota - window_s if self._quota else float(INT_MAX)

    def rate(self, now_s: float) -> float:
        """Return the rate now, a second."""
        self._drop_expired(now_s)
        return self.total / self._window_s(now_s)

    def is_idle(self, now_s: float) -> bool:
        """Return whether nothing is counted any more: then it is equal to a new one."""
        return now_s - self.last_s >= self._expiry_s

    def _window_s(self, now_s: float) -> float:
        start_s = self._older[0][0] if self._older else self._start_s
        if start_s == NEVER_S:
            return self._full_s or self._sample_s
        age_s = now_s - start_s
        return max(age_s + max(0.0, self._full_s - age_s // self._sample_s * self._sample_s), 0.001)

    def start_sample(self, now_s: float) -> None:
        """Begin a new sample."""
        if self._start_s != NEVER_S:
            self._older.append((self._start_s, self.last_s, self.total - self._older_total))
            self._older_total = self.total
        self._start_s = self.last_s = now_s
        self.ends_s = now_s + self._sample_s
        self._drop_expired(now_s)

    def _drop_expired(self, now_s: float) -> None:
        older = self._older
        while older and now_s - older[0][1] >= self._expiry_s:
            dropped = older.popleft()[2]
            self._older_total -= dropped
            self.total -= dropped
        if not older:  # without rounding errors
            self.total -= self._older_total
            self._older_total = 0.0
        if self.is_idle(now_s):
            self._start_s = self.last_s = self.ends_s = NEVER_S
            self.total = 0.0


class TokenBucket:
    """A bucket that `quota` tokens a second flow into, and that holds as many as flow in during the whole window."""

    __slots__ = ("_samples_s", "_tokens", "_updated_s", "quota")

    def __init__(self, window: Window, quota: float) -> None:
        """The bucket is full. quota: a second. It may be changed at any time."""
        self.quota = quota
        self._samples_s = window.samples * window.sample_s
        self._tokens = quota * self._samples_s
        self._updated_s = NEVER_S

    def is_overdrawn(self, now_s: float) -> bool:
        """Return whether more was taken than had flowed in."""
        self._fill(now_s)
        return self._tokens < 0

    def take(self, tokens: float, now_s: float) -> float:
        """Take tokens, also more than there are; return the seconds until the bucket is not overdrawn."""
        self._fill(now_s)
        self._tokens -= tokens
        return self.throttle_s(now_s)

    def throttle_s(self, now_s: float) -> float:
        """Return the seconds until the bucket is not overdrawn."""
        self._fill(now_s)
        if self._tokens >= 0:
            return 0.0
        return -self._tokens / self.quota if self.quota else float(INT_MAX)

    def rate(self, now_s: float) -> float:
        """Return the tokens taken a second, over the whole window."""
        self._fill(now_s)
        return (self.quota * self._samples_s - self._tokens) / self._samples_s

    def is_idle(self, now_s: float) -> bool:
        """Return whether the bucket is full: then it is equal to a new one."""
        self._fill(now_s)
        return self._tokens >= self.quota * self._samples_s

    def _fill(self, now_s: float) -> None:
        if self._updated_s != NEVER_S:
            self._tokens += (now_s - self._updated_s) * self.quota
        self._tokens = min(self._tokens, self.quota * self._samples_s)
        self._updated_s = now_s


def to_ms(seconds: float) -> int:
    """Return whole milliseconds as an int32, rounded."""
    return min(round(seconds * 1000), INT_MAX)
