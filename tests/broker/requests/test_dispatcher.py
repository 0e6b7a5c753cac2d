"""From a frame to a handler and back: headers, versions, what handlers may return, and what is counted."""

from __future__ import annotations

import asyncio
import gc
import logging
import struct

import pytest

from broker.errors import RequestError
from broker.metrics import BrokerMetrics
from broker.network.connection import CloseConnectionError
from broker.requests.api_table import Api
from broker.requests.context import RequestContext
from broker.requests.dispatcher import Dispatcher
from broker.requests.handler import CancelOnDisconnect, Changed, Handler
from broker.requests.metered import Metered
from broker.requests.tasks import RequestTasks
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.headers import RequestHeader, request_header_version
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from replication.errors import NotLeaderOrFollowerError
from support.connections import Lazy
from support.deadlines import DEADLINE_S
from support.wire import decode_answer, frame

FIND, VERSIONS = int(ApiKey.FIND_COORDINATOR), int(ApiKey.API_VERSIONS)


class FindHandler(Handler):
    """Returns what the test says, or raises it."""

    def __init__(self):
        self.outcome = FindCoordinatorResponse(node_id=7, host="h")
        self.seen = []

    def handle(self, request, context):
        self.seen.append((request, context))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def failed(self, request, code):
        return FindCoordinatorResponse(error_code=code)


class VersionsHandler(Handler):
    def handle(self, request, context):
        return ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, max_version=4)])

    def failed(self, request, code):
        return ApiVersionsResponse(error_code=code, api_keys=[ApiVersion(api_key=18, max_version=4)])


class Bench:
    """A dispatcher that serves two APIs."""

    def __init__(self):
        self.find = FindHandler()
        self.metrics = BrokerMetrics()
        self.tasks = []
        self.dispatcher = Dispatcher(
            [
                (Api(ApiKey.FIND_COORDINATOR, 1, 3, None), self.find),
                (Api(ApiKey.API_VERSIONS, 0, 4, None), VersionsHandler()),
            ],
            self.metrics,
            self._start_task,
        )

    def _start_task(self, work):
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]

    def send(self, data):
        """Hand over a frame without its size prefix."""
        return self.dispatcher.handle_frame(memoryview(data), None)

    def ask(self, version=3, **header):
        return self.send(frame(FindCoordinatorRequest(key="k"), version, **header)[4:])

    @property
    def counted(self):
        return self.metrics.api("FindCoordinator")


@pytest.fixture
def bench():
    return Bench()


def decoded(answer, api_key=FIND, version=3):
    data = b"".join(bytes(piece) for piece in answer)
    assert struct.unpack_from(">i", data) == (len(data) - 4,)
    return decode_answer(data[4:], api_key, version)


# -- headers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client_id", [None, "", "me", "ü" * 200])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_header_reaches_the_handler(bench, client_id, version):
    correlation_id, answer = decoded(bench.ask(version, correlation_id=-77, client_id=client_id), version=version)
    assert (correlation_id, answer.node_id) == (-77, 7)
    [(request, context)] = bench.find.seen
    assert request == FindCoordinatorRequest(key="k")
    assert (context.api_version, context.correlation_id, context.client_id) == (version, -77, client_id)


def test_tagged_header_fields_are_skipped(bench):
    header = RequestHeader(request_api_key=FIND, request_api_version=3, correlation_id=5, client_id="c")
    header.unknown_tags = {0: b"zero", 90: bytes(200)}
    pieces = header.encode(request_header_version(FIND, 3)) + FindCoordinatorRequest(key="k").encode(3)
    assert decoded(bench.send(b"".join(bytes(piece) for piece in pieces)))[0] == 5
    assert bench.find.seen[0][0].key == "k"


def test_every_truncation_of_a_request_is_refused(bench):
    whole = frame(FindCoordinatorRequest(key="key", key_type=1), 3)[4:]
    for size in range(len(whole)):
        with pytest.raises(CloseConnectionError):
            bench.send(whole[:size])
    assert bench.metrics.rejected_frames == len(whole)
    assert bench.find.seen == []
    assert bench.counted.requests == 0


def test_a_client_id_longer_than_its_frame_is_refused_even_without_other_fields(bench):
    with pytest.raises(CloseConnectionError, match="client id"):
        bench.send(struct.pack(">hhih", VERSIONS, 0, 1, 100) + b"short")


def test_a_client_id_must_be_utf_8(bench):
    with pytest.raises(CloseConnectionError, match="FindCoordinator v3 cannot be decoded"):
        bench.send(struct.pack(">hhih", FIND, 3, 1, 2) + b"\xff\xfe\0" + b"\2k\0\0")


@pytest.mark.parametrize("length", [-2, -(2**15)])
def test_a_negative_length_of_the_client_id_means_null(bench, length):
    """As in Kafka's generated decoder."""
    bench.send(struct.pack(">hhih", FIND, 3, 1, length) + b"\0" + b"\2k\0\0")
    assert bench.find.seen[0][1].client_id is None


# -- APIs and versions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api_key", "version", "reason"),
    [
        (999, 0, "API key 999 is unknown or not served"),
        (-1, 0, "API key -1 is unknown or not served"),
        (FIND, 0, r"FindCoordinator version 0 is not served \(1 to 3 are\)"),
        (FIND, 4, r"FindCoordinator version 4 is not served \(1 to 3 are\)"),
        (FIND, -1, "FindCoordinator version -1 is not served"),
    ],
)
def test_an_api_that_is_not_served_is_refused_by_name(bench, api_key, version, reason):
    with pytest.raises(CloseConnectionError, match=reason):
        bench.send(struct.pack(">hhih", api_key, version, 1, -1) + bytes(20))
    assert bench.metrics.rejected_frames == 1


@pytest.mark.parametrize("version", [5, 99, 2**15 - 1, -1])
def test_newer_api_versions_requests_are_answered_in_version_0(bench, version):
    answer = bench.send(struct.pack(">hhih", VERSIONS, version, 42, 3) + b"abc" + bytes(50))
    correlation_id, message = decoded(answer, VERSIONS, 0)
    assert correlation_id == 42
    assert message.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(one.api_key, one.max_version) for one in message.api_keys] == [(18, 4)]
    assert bench.metrics.rejected_frames == 0


@pytest.mark.parametrize("version", range(5))
def test_the_answer_to_api_versions_never_has_a_tagged_header(bench, version):
    request = ApiVersionsRequest(client_software_name="n", client_software_version="v")
    answer = bench.send(frame(request if version >= 3 else ApiVersionsRequest(), version)[4:])
    assert decoded(answer, VERSIONS, version)[1].error_code == 0


# -- what handlers return ---------------------------------------------------------------------------------------------


def test_a_request_without_an_answer_is_counted(bench):
    bench.find.outcome = None
    assert bench.ask() is None
    assert (bench.counted.requests, bench.counted.response_bytes) == (1, 0)


def test_record_ranges_are_not_copied(bench):
    lazy = Lazy(b"records")

    class Answer(FindCoordinatorResponse):
        def encode(self, version):
            return [b"head", lazy, b"tail"]

    bench.find.outcome = Answer()
    head, *pieces = bench.ask(correlation_id=1)
    assert pieces == [b"head", lazy, b"tail"]
    assert head == struct.pack(">ii", 4 + 1 + 15, 1) + b"\0"
    assert lazy.reads == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestError(ErrorCode.INVALID_REQUEST, "no"), ErrorCode.INVALID_REQUEST),
        (NotLeaderOrFollowerError("elsewhere"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (OSError(28, "No space left on device"), ErrorCode.KAFKA_STORAGE_ERROR),
        (ZeroDivisionError("bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("how", ["raised", "future", "coroutine"])
async def test_errors_become_codes_and_unexpected_exceptions_are_logged(bench, how, error, code, caplog):
    async def work():
        raise error

    if how == "raised":
        bench.find.outcome = error
    elif how == "coroutine":
        bench.find.outcome = work()
    else:
        bench.find.outcome = asyncio.get_running_loop().create_future()
        bench.find.outcome.set_exception(error)
    with caplog.at_level(logging.ERROR, "broker.requests.dispatcher"):
        answer = bench.ask()
        if how != "raised":
            answer = await ready(answer)
    assert decoded(answer)[1].error_code == code
    assert bench.counted.errors == 1
    assert ("ZeroDivisionError" in caplog.text) == (code is ErrorCode.UNKNOWN_SERVER_ERROR)


async def ready(pending):
    """The answer of a request that waits."""
    called = asyncio.Event()
    pending.on_ready(called.set)
    async with asyncio.timeout(DEADLINE_S):
        await called.wait()
    return pending.result()


@pytest.mark.parametrize("returned", [asyncio.ensure_future, CancelOnDisconnect])
async def test_a_future_is_answered_when_it_is_done(bench, returned):
    waiting = asyncio.get_running_loop().create_future()
    bench.find.outcome = returned(waiting)
    pending = bench.ask(correlation_id=9)
    assert bench.counted.requests == 0
    asyncio.get_running_loop().call_soon(waiting.set_result, FindCoordinatorResponse(node_id=3))
    correlation_id, answer = decoded(await ready(pending))
    assert (correlation_id, answer.node_id) == (9, 3)
    assert bench.counted.requests == 1


async def test_a_future_may_resolve_to_no_answer(bench):
    bench.find.outcome = asyncio.get_running_loop().create_future()
    bench.find.outcome.set_result(None)
    assert await ready(bench.ask()) is None
    assert bench.counted.requests == 1


async def test_a_wait_is_cancelled_when_its_client_disconnects(bench):
    waiting = asyncio.get_running_loop().create_future()
    bench.find.outcome = CancelOnDisconnect(waiting)
    bench.ask().abandon()
    assert waiting.cancelled()


async def test_a_future_is_not_cancelled_when_its_client_disconnects(bench):
    bench.find.outcome = waiting = asyncio.get_running_loop().create_future()
    pending = bench.ask()
    pending.abandon()
    waiting.set_result(FindCoordinatorResponse(node_id=3))
    assert decoded(await ready(pending))[1].node_id == 3
    assert not bench.tasks  # a task costs more than many requests


async def test_work_continues_after_its_client_disconnects(bench):
    go, done = asyncio.Event(), []

    async def work():
        await go.wait()
        done.append(True)
        return FindCoordinatorResponse()

    bench.find.outcome = work()
    pending = bench.ask()
    called = asyncio.Event()
    pending.on_ready(called.set)
    pending.abandon()
    go.set()
    await bench.tasks[0]
    assert done == [True]


@pytest.mark.parametrize("how", ["raised", "future", "coroutine"])
async def test_a_handler_may_close_the_connection(bench, how):
    async def work():
        raise CloseConnectionError("acks=0")

    bench.find.outcome = CloseConnectionError("acks=0")
    if how == "coroutine":
        bench.find.outcome = work()
    elif how == "future":
        bench.find.outcome = asyncio.get_running_loop().create_future()
        bench.find.outcome.set_exception(CloseConnectionError("acks=0"))
    with pytest.raises(CloseConnectionError, match="acks=0"):
        await ready(bench.ask())


async def test_a_cancelled_request_closes_the_connection(bench):
    bench.find.outcome = waiting = asyncio.get_running_loop().create_future()
    pending = bench.ask()
    waiting.cancel()
    with pytest.raises(CloseConnectionError, match="stopping"):
        await ready(pending)


def test_an_answer_that_cannot_be_encoded_closes_the_connection(bench, caplog):
    bench.find.outcome = FindCoordinatorResponse(node_id=1, coordinators=[None])  # a field of v4 and up
    with pytest.raises(CloseConnectionError, match="cannot be encoded"):
        bench.ask()
    assert "cannot be encoded" in caplog.text


# -- counting ---------------------------------------------------------------------------------------------------------


def test_bytes_and_times_are_counted(bench):
    request = frame(FindCoordinatorRequest(key="k"), 3)[4:]
    answers = [bench.send(request) for _ in range(3)]
    counted = bench.counted
    assert counted.requests == sum(counted.bucket_counts) == 3
    assert counted.request_bytes == 3 * len(request)
    assert counted.response_bytes == sum(len(piece) for answer in answers for piece in answer)
    assert counted.seconds > 0
    assert counted.errors == 0


# -- answers that are made at last ------------------------------------------------------------------------------------


async def test_an_answer_is_made_of_what_a_future_brings():
    loop = asyncio.get_running_loop()

    def pair():
        waiting = loop.create_future()
        return waiting, CancelOnDisconnect(waiting, lambda value: 10 // value).then(str)

    waiting, coming = pair()
    waiting.set_result(5)
    assert await coming == "2"
    waiting, coming = pair()
    waiting.set_result(0)
    with pytest.raises(ZeroDivisionError):
        await coming
    waiting, coming = pair()
    waiting.set_exception(KeyError("x"))
    with pytest.raises(KeyError):
        await coming
    waiting, coming = pair()
    coming.cancel()
    assert waiting.cancelled()
    waiting, coming = pair()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await coming


async def test_an_answer_is_changed_when_it_is_there():
    async def number():
        await asyncio.sleep(0)
        return 5

    assert await Changed(Changed(number(), lambda value: 2 * value), str) == "10"
    assert await Metered(Changed(number(), str), RequestContext(None, 0, 0, None)) == "5"
    with pytest.raises(ZeroDivisionError):
        await Changed(number(), lambda _: 1 // 0)
    coming = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(Changed(coming, str))
    coming.set_exception(KeyError("x"))
    with pytest.raises(KeyError):
        await waiting


async def test_an_answer_that_is_to_be_changed_need_not_begin():
    """A coroutine that nobody awaits would be a warning."""

    async def number():
        return 5

    never_entered = RequestTasks(asyncio.TaskGroup())
    assert never_entered.start(Changed(Changed(number(), str), str)).cancelled()
    async with asyncio.TaskGroup() as group:
        tasks = RequestTasks(group)
        answered = tasks.start(Changed(Changed(number(), str), str))
        tasks.cancel()
    assert answered.cancelled()
    gc.collect()


async def test_an_answer_that_cannot_be_made_is_an_error_of_its_request(bench):
    waiting = asyncio.get_running_loop().create_future()
    bench.find.outcome = CancelOnDisconnect(waiting, lambda _: 1 // 0)
    pending = bench.ask()
    waiting.set_result(None)
    assert decoded(await ready(pending))[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
