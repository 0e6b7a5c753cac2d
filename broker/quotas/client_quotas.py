"""What users and clients may use: bytes produced and fetched, time of the broker, changes of topics.

For each quota, the entity of a client is the first one in the order of `entities.paths_for` that has a value. All
clients with the same entity share the quota; with a default, each user or client has one of its own. A request that
exceeds a quota is answered at once; then nothing is read from its connection for the time of throttling (KIP-219).
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from broker.quotas.entities import paths_for
from broker.quotas.rates import SampledRate, TokenBucket, Window, to_ms
from broker.settings.entities import CLIENTS, IPS, USERS
from protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from broker.requests.context import RequestContext

logger = logging.getLogger(__name__)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
CLIENT_QUOTAS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)

NOT_THROTTLED: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
)
"""Requests between brokers. Fetch requests of followers are not throttled either."""

MAX_CACHED: Final = 10_000
"""Clients whose limits are kept. A client may choose any client id, so there must be a limit."""
MAX_CLIENT_ID: Final = 256
"""The length of the longest client id that is kept. Of longer ones a hash is kept, so that they cost no memory."""
PRUNE_AT: Final = 1000
"""The number of shares at which those that are not used any more are removed."""


ShareKey = tuple[str, str, str]
"""The name of a quota; a user and a client id, of which one may be empty."""
Measure = TypeVar("Measure", SampledRate, TokenBucket)


class Share(Generic[Measure]):
    """What the clients of one entity have used of one quota."""

    __slots__ = ("client_id", "large_fetch_s", "measure", "quota_name", "throttled", "throttled_ms", "user")

    def __init__(self, quota_name: str, user: str, client_id: str, measure: Measure) -> None:
        self.quota_name = quota_name
        self.user = user
        """Empty for a quota of a client id of all users."""
        self.client_id = client_id
        """Empty for a quota of a user with all client ids."""
        self.measure: Measure = measure
        self.throttled = 0
        """Number of requests that were throttled."""
        self.throttled_ms = 0
        self.large_fetch_s: float | None = None
        """When an answer that is too large for the quota may be sent."""

    def throttle(self, throttle_s: float) -> int:
        """Count a request that is throttled, if it is; return the milliseconds."""
        throttle_ms = to_ms(throttle_s)
        if throttle_ms:
            self.throttled += 1
            self.throttled_ms += throttle_ms
        return throttle_ms


AnyShare = Share[SampledRate] | Share[TokenBucket]


_OUTDATED: Final = object()
"""In the place of a client id, in limits that a connection must not use any more."""


class Limits:
    """The shares that one client has; None where it has no limit."""

    __slots__ = ("client_id", "fetch", "mutations", "produce", "produce_rate", "request", "request_rate")

    def __init__(
        self,
        client_id: str | None,
        produce: Share[SampledRate] | None = None,
        fetch: Share[SampledRate] | None = None,
        request: Share[SampledRate] | None = None,
        mutations: Share[TokenBucket] | None = None,
    ) -> None:
        self.client_id: object = client_id
        """The client id. Connections remember the limits of it; limits that are out of date equal no client id."""
        self.produce = produce
        self.produce_rate = None if produce is None else produce.measure
        self.fetch = fetch
        self.request = request
        self.request_rate = None if request is None else request.measure
        self.mutations = mutations

    def throttle_produce(self, now_s: float) -> int:
        """Count a Produce request that is throttled, if it is; return the milliseconds."""
        share = self.produce
        return 0 if share is None else share.throttle(share.measure.throttle_s(now_s))

    def throttle_request(self, now_s: float, at_most_s: float) -> int:
        """Count a request whose time is throttled, if it is; return the milliseconds."""
        share = self.request
        return 0 if share is None else share.throttle(min(share.measure.throttle_s(now_s), at_most_s))


UNKNOWN_LIMITS: Final = Limits(None)
"""The limits of a connection before its first request that is counted."""
UNKNOWN_LIMITS.client_id = _OUTDATED


class ClientQuotas:
    """The quotas of all clients of one broker. Subscribed to `EntityConfigs`."""

    def __init__(self, window: Window, controller_window: Window, now_s: Callable[[], float]) -> None:
        """controller_window: for changes of topics."""
        self.is_active = False
        """Whether any user or client has a quota: without, quotas cost nothing."""
        self.now_s = now_s
        self._window = window
        self._controller_window = controller_window
        self._quotas: dict[str, dict[str, float]] = {}  # by path
        self._limits: dict[tuple[str, str | None], Limits] = {}
        self._rates: dict[ShareKey, Share[SampledRate]] = {}
        self._buckets: dict[ShareKey, Share[TokenBucket]] = {}
        self._prune_at = PRUNE_AT

    def config_changed(self, path: str, config: Mapping[str, str]) -> None:
        """Apply a changed config of a user or client; see `EntityConfigs.subscribe`."""
        if path.startswith(f"{IPS}/"):
            return
        quotas = quota_values(path, config, CLIENT_QUOTAS)
        if quotas == self._quotas.get(path, {}):
            return
        if quotas:
            self._quotas[path] = quotas
        else:
            del self._quotas[path]
        self.is_active = bool(self._quotas)
        self._forget_limits()

    # -- requests ------------------------------------------------------------------------------------------------------

    def of(self, user: str, client_id: str | None) -> Limits:
        """Return the limits of a client."""
        limits = self._limits.get((user, client_id))
        return self._resolve(user, client_id) if limits is None else limits

    def settle(self, context: RequestContext, is_produce: bool, now_s: float) -> int:
        """Count a request that is answered now; return the milliseconds to throttle it, 0 if it exceeds no quota.

        now_s: of the clock of these quotas, which must be the one that requests are timed with.

        The time of a request counts as percent of one event loop, and is throttled for one sample at most. This is on
        the path of every request, so it calls little.
        """
        if context.is_settled:
            return context.throttle_ms
        limits = context.connection.limits
        if limits.client_id != context.client_id:
            limits = self._limits_of(context)
        throttle_ms = context.throttle_ms
        if (rate := limits.produce_rate) is not None and is_produce:  # the lines of SampledRate.record
            if now_s >= rate.ends_s:
                rate.start_sample(now_s)
            rate.last_s = now_s
            rate.total = total = rate.total + context.request_bytes
            if total > rate.allowed:
                throttle_ms = max(throttle_ms, limits.throttle_produce(now_s))
        if (rate := limits.request_rate) is not None:
            if now_s >= rate.ends_s:
                rate.start_sample(now_s)
            rate.last_s = now_s
            rate.total = total = rate.total + (now_s - context.began_s) * 100.0
            if total > rate.allowed:
                throttle_ms = max(throttle_ms, limits.throttle_request(now_s, self._window.sample_s))
        return throttle_ms

    def _limits_of(self, context: RequestContext) -> Limits:
        """Return the limits of the client of a request. Its connection remembers them, for the next request."""
        connection, client_id = context.connection, context.client_id
        limits = self.of(connection.principal.name, client_id)
        if client_id is None or len(client_id) <= MAX_CLIENT_ID:
            connection.limits = limits
        return limits

    def settle_fetch(self, user: str, client_id: str | None, size: int, busy_s: float) -> tuple[int, bool]:
        """Count an answer of `size` bytes to a consumer; return the milliseconds to throttle it, and if it may be sent.

        An answer that exceeds a quota is not sent; its bytes do not count then.
        """
        limits = self.of(user, client_id)
        throttle_ms = 0
        if limits.request is not None:
            throttle_s = limits.request.measure.record(busy_s * 100, self.now_s())
            throttle_ms = limits.request.throttle(min(throttle_s, self._window.sample_s))
        share = limits.fetch
        if share is None:
            return throttle_ms, not throttle_ms
        throttle_s = self._throttle_fetch(share, size)
        throttle_ms = max(throttle_ms, share.throttle(throttle_s) if throttle_s else 0)
        if throttle_ms and not throttle_s:
            share.measure.take_back(size)  # the time of requests is exceeded: the answer is not sent
        return throttle_ms, not throttle_ms

    def _throttle_fetch(self, share: Share[SampledRate], size: int) -> float:
        """Count an answer; if it exceeds the quota, take it back and return the seconds of throttling.

        The rate of an answer with one batch that is larger than the quota of a whole window would always exceed the
        quota. In Kafka its consumer waits forever. Here it waits until the quota would have been enough.
        """
        now_s, measure = self.now_s(), share.measure
        throttle_s = measure.record(size, now_s)
        if not throttle_s:
            return 0.0
        measure.take_back(size)
        quota = measure.quota
        if size <= quota * self._window.samples * self._window.sample_s or not quota or measure.rate(now_s):
            return throttle_s
        if share.large_fetch_s is None:
            share.large_fetch_s = now_s + size / quota
            return throttle_s
        if now_s < share.large_fetch_s:
            return share.large_fetch_s - now_s
        share.large_fetch_s = None
        return 0.0

    def largest_fetch(self, user: str, client_id: str | None, limit: int) -> int:
        """Return the bytes that an answer to a consumer may have: those of a whole window, at most `limit`."""
        share = self.of(user, client_id).fetch
        return limit if share is None else int(min(limit, share.measure.quota * self._window.full_s))

    # -- limits --------------------------------------------------------------------------------------------------------

    def _resolve(self, user: str, client_id: str | None) -> Limits:
        if len(self._limits) >= MAX_CACHED:
            self._forget_limits()
        found: dict[str, tuple[str, float]] = {}
        for path in paths_for(user, client_id or ""):
            for name, quota in self._quotas.get(path, {}).items():
                found.setdefault(name, (path, quota))
        shown_id = _short(client_id or "")
        keyed = {name: (_share_key(name, path, user, shown_id), quota) for name, (path, quota) in found.items()}
        if len(self._rates) + len(self._buckets) >= self._prune_at:
            self._prune()
        limits = Limits(
            client_id,
            self._rate(keyed.get(PRODUCER_BYTE_RATE)),
            self._rate(keyed.get(CONSUMER_BYTE_RATE)),
            self._rate(keyed.get(REQUEST_PERCENTAGE)),
            self._bucket(keyed.get(CONTROLLER_MUTATION_RATE)),
        )
        if len(client_id or "") <= MAX_CLIENT_ID:
            self._limits[user, client_id] = limits
        return limits

    def _rate(self, keyed: tuple[ShareKey, float] | None) -> Share[SampledRate] | None:
        if keyed is None:
            return None
        key, quota = keyed
        share = self._rates.get(key)
        if share is None:
            share = self._rates[key] = Share(*key, SampledRate(self._window, quota))
        share.measure.quota = quota
        return share

    def _bucket(self, keyed: tuple[ShareKey, float] | None) -> Share[TokenBucket] | None:
        if keyed is None:
            return None
        key, quota = keyed
        share = self._buckets.get(key)
        if share is None:
            share = self._buckets[key] = Share(*key, TokenBucket(self._controller_window, quota))
        share.measure.quota = quota
        return share

    def _forget_limits(self) -> None:
        for limits in self._limits.values():
            limits.client_id = _OUTDATED
        self._limits.clear()

    def _prune(self) -> None:
        """Remove the shares that nothing is counted for any more, from time to time."""
        now_s = self.now_s()
        self._rates = {key: share for key, share in self._rates.items() if not share.measure.is_idle(now_s)}
        self._buckets = {key: share for key, share in self._buckets.items() if not share.measure.is_idle(now_s)}
        self._forget_limits()  # they hold the removed shares
        self._prune_at = max(PRUNE_AT, 2 * (len(self._rates) + len(self._buckets)))

    def shares(self, at_most: int) -> Iterator[AnyShare]:
        """Return shares that are in use, for metrics."""
        return islice(chain(self._rates.values(), self._buckets.values()), at_most)


def _short(client_id: str) -> str:
    """Return a client id, or the hash of a long one."""
    if len(client_id) <= MAX_CLIENT_ID:
        return client_id
    return hashlib.sha256(client_id.encode("utf-8", "surrogatepass")).hexdigest()


def _share_key(name: str, path: str, user: str, client_id: str) -> ShareKey:
    """Return the key of the share of a client whose quota `name` is that of `path`."""
    of_user = user if path.startswith(f"{USERS}/") else ""
    of_client = client_id if f"/{CLIENTS}/" in f"/{path}" else ""
    return name, of_user, of_client


def quota_values(path: str, config: Mapping[str, str], names: tuple[str, ...]) -> dict[str, float]:
    """Return the quotas in a config. A value that is not a number of at least 0 is ignored with a warning."""
    values: dict[str, float] = {}
    for name in names:
        text = config.get(name)
        if text is None:
            continue
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if value >= 0:
            values[name] = value
        else:
            logger.warning("%s of %s is ignored: %r must be a number of at least 0", name, path, text)
    return values


NO_QUOTAS: Final = ClientQuotas(Window(1, 1.0), Window(1, 1.0), lambda: 0.0)
"""No client has a quota."""
