"""Every API tells its client how long it is throttled, in every version that can, and mutes its connection."""

import asyncio

import pytest

from broker.authorization.rules import SENT_BY_BROKERS
from broker.metrics import BrokerMetrics
from broker.quotas.client_quotas import NOT_THROTTLED, UNKNOWN_LIMITS, ClientQuotas
from broker.quotas.rates import Window
from broker.requests.api_table import API_TABLE
from broker.requests.dispatcher import Dispatcher
from broker.requests.handler import CancelOnDisconnect, Handler
from protocol.api_keys import ApiKey, response_class
from protocol.error_codes import ErrorCode
from protocol.fields import VersionRange
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.produce import ProduceRequest
from security.principal import ANONYMOUS
from support.wire import decode_answer, frame

TINY = {"request_percentage": "1.0E-9"}
"""Any request exceeds it, and is throttled for as long as requests are: one second."""


class Peer:
    """A connection that notes how long it was muted."""

    principal = ANONYMOUS
    limits = UNKNOWN_LIMITS

    def __init__(self):
        self.muted = []

    def mute(self, seconds):
        self.muted.append(seconds)


class Answers(Handler):
    """Returns what the test says."""

    def __init__(self, answer):
        self.answer = answer

    def handle(self, request, context):
        return self.answer

    def failed(self, request, code):
        return self.answer


def dispatcher(api, answer, config, start_task=None):
    quotas = ClientQuotas(Window(11, 1.0), Window(11, 1.0), lambda: 7.0)
    quotas.config_changed("users/ANONYMOUS", config)
    return Dispatcher([(api, Answers(answer))], BrokerMetrics(), start_task, quotas)


def api_of(key):
    return next(row for row in API_TABLE if row.key is key)


def tells(cls, version):
    fields = [field for field in cls.FIELDS if field.name == "throttle_time_ms"]
    return any(version in VersionRange.parse(field.versions) for field in fields)


@pytest.mark.parametrize("row", API_TABLE, ids=[row.name for row in API_TABLE])
def test_the_answer_of_every_version_tells_the_time(row):
    cls = response_class(row.key)
    answer = cls()
    one = dispatcher(row, answer, TINY)
    for version in range(row.min_version, row.max_version + 1):
        peer = Peer()
        request = row.request()
        pieces = one.handle_frame(memoryview(frame(request, version))[4:], peer)
        if row.key in NOT_THROTTLED:
            assert peer.muted == []
            continue
        assert peer.muted == [1.0]
        _, told = decode_answer(b"".join(pieces)[4:], row.key, version)
        if tells(cls, version):
            assert told.throttle_time_ms == 1000


def test_requests_between_brokers_are_not_throttled():
    assert {row.key for row in API_TABLE if row.key in SENT_BY_BROKERS} == NOT_THROTTLED


def test_produce_counts_the_frame_and_mutes_without_an_answer_too():
    produce = api_of(ApiKey.PRODUCE)
    data = frame(ProduceRequest(acks=0, topic_data=[]), 9)
    size = len(data) - 4
    one = dispatcher(produce, None, {"producer_byte_rate": "1"})
    peer = Peer()
    assert one.handle_frame(memoryview(data)[4:], peer) is None
    assert peer.muted == [pytest.approx(size - 10, abs=0.001)]


def test_a_frame_below_the_quota_changes_nothing():
    find = api_of(ApiKey.FIND_COORDINATOR)
    peer = Peer()
    answer = FindCoordinatorResponse(node_id=7, host="h")
    one = dispatcher(find, answer, {"producer_byte_rate": "1", "request_percentage": "100000"})
    pieces = one.handle_frame(memoryview(frame(FindCoordinatorRequest(key="k"), 3))[4:], peer)
    _, told = decode_answer(b"".join(pieces)[4:], ApiKey.FIND_COORDINATOR, 3)
    assert (peer.muted, told.throttle_time_ms) == ([], 0)


@pytest.mark.parametrize("kind", ["future", "cancelled on disconnect", "coroutine"])
async def test_an_answer_that_comes_later_is_throttled_when_it_comes(kind):
    find, peer = api_of(ApiKey.FIND_COORDINATOR), Peer()
    later = asyncio.get_running_loop().create_future()
    answers = {"future": later, "cancelled on disconnect": CancelOnDisconnect(later)}
    one = dispatcher(find, answers.get(kind) or _wait_for(later), TINY, asyncio.ensure_future)
    pending = one.handle_frame(memoryview(frame(FindCoordinatorRequest(key="k"), 3))[4:], peer)
    ready = asyncio.Event()
    pending.on_ready(ready.set)
    assert peer.muted == []
    later.set_result(FindCoordinatorResponse(node_id=7, host="h"))
    await ready.wait()
    _, told = decode_answer(b"".join(pending.result())[4:], ApiKey.FIND_COORDINATOR, 3)
    assert (peer.muted, told.throttle_time_ms) == ([1.0], 1000)


async def _wait_for(future):
    return await future


def test_a_refused_request_counts_only_its_own_time():
    row = api_of(ApiKey.FIND_COORDINATOR)
    one = dispatcher(row, FindCoordinatorResponse(), {"request_percentage": "100000"})
    peer = Peer()
    request = memoryview(frame(FindCoordinatorRequest(), 3))[4:]
    one.refusal(request, peer, ErrorCode.ILLEGAL_SASL_STATE)
    assert peer.muted == []
