"""Logins at a fake broker that has every mechanism, and sessions that end."""

import asyncio
import random
import threading

import pytest

from client.admin.admin import Admin
from client.consumer.reader import Reader
from client.errors import AuthenticationError, KafkaError
from client.producer.producer import Producer
from client.wire.client_security import connection_security
from client.wire.connection import Connection
from client.wire.connection_security import ConnectionSecurity
from client.wire.sasl_login import SaslLogin
from client.wire.security_options import SecurityOptions
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from security.sasl.scram import SCRAM_SHA_256
from security.sasl.scram_client import ScramClient
from support.deadlines import DEADLINE_S
from support.fake_broker import CLOSE, SILENCE
from support.polling import until
from support.sasl_broker import PASSWORD, USER, SaslBroker

SASL = {"security_protocol": "SASL_PLAINTEXT"}
BY_PASSWORD = {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
LOGINS = {
    "PLAIN": {**SASL, **BY_PASSWORD, "sasl_mechanism": "PLAIN"},
    "SCRAM-SHA-256": {**SASL, **BY_PASSWORD, "sasl_mechanism": "SCRAM-SHA-256"},
    "SCRAM-SHA-512": {**SASL, **BY_PASSWORD, "sasl_mechanism": "SCRAM-SHA-512"},
    "OAUTHBEARER": {**SASL, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda: "good-token"},
}


@pytest.fixture
async def broker():
    async with SaslBroker({"t": 1}) as fake:
        yield fake


async def opened(broker, **options):
    security = connection_security(SecurityOptions(**options), random.Random(1))
    return await Connection.open("127.0.0.1", broker.port, security=security, request_timeout_s=DEADLINE_S)


def wrong(mechanism):
    if mechanism == "OAUTHBEARER":
        return {**LOGINS[mechanism], "sasl_oauth_token_provider": lambda: "another-token"}
    return {**LOGINS[mechanism], "sasl_plain_password": "hunter2"}


@pytest.mark.parametrize("mechanism", LOGINS)
async def test_a_login(broker, mechanism):
    async with await opened(broker, **LOGINS[mechanism]) as connection:
        assert broker.logins == 1
        answer = await connection.call(MetadataRequest(topics=[]), MetadataResponse)
        assert answer.cluster_id == "fake"
    assert [key for key, _ in broker.requests[:2]] == [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE]


@pytest.mark.parametrize("mechanism", LOGINS)
async def test_a_login_that_is_refused(broker, mechanism):
    with pytest.raises(AuthenticationError, match=f"with {mechanism}: SASL_AUTHENTICATION_FAILED") as caught:
        await opened(broker, **wrong(mechanism))
    assert not caught.value.retriable
    assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "hunter2" not in str(caught.value)
    assert "another-token" not in str(caught.value)
    await until(lambda: broker.connections == 0, "the connection is closed")


async def test_a_server_that_does_not_know_the_password(broker):
    broker.forged = True
    with pytest.raises(AuthenticationError, match="does not know the password"):
        await opened(broker, **LOGINS["SCRAM-SHA-256"])


@pytest.mark.parametrize("iterations", [4096, 16384])
async def test_many_iterations_of_scram_are_left_to_a_thread(broker, iterations):
    """A server may ask for a million: the event loop would stop for as long."""
    broker.iterations = iterations
    threads = []

    class Observed(ScramClient):
        def answer(self, message):
            threads.append(threading.current_thread())
            return super().answer(message)

    async def new_exchange(host):
        return Observed(SCRAM_SHA_256, USER, PASSWORD)

    security = ConnectionSecurity(login=SaslLogin("SCRAM-SHA-256", new_exchange, random.Random(1)))
    async with await Connection.open("127.0.0.1", broker.port, security=security):
        assert broker.logins == 1
    proof, signature = threads
    assert (proof is threading.current_thread()) == (iterations == 4096)
    assert signature is threading.current_thread()


async def test_a_mechanism_that_is_not_enabled(broker):
    broker.mechanisms = ("SCRAM-SHA-512", "OAUTHBEARER")
    with pytest.raises(AuthenticationError, match="the listener has enabled SCRAM-SHA-512, OAUTHBEARER"):
        await opened(broker, **LOGINS["PLAIN"])


async def test_a_listener_without_a_login(broker):
    broker.script[ApiKey.SASL_HANDSHAKE] = [ErrorCode.ILLEGAL_SASL_STATE]
    with pytest.raises(AuthenticationError, match="the listener has no login"):
        await opened(broker, **LOGINS["PLAIN"])


async def test_a_token_provider_may_be_asynchronous_and_is_called_for_each_login(broker):
    calls = []

    async def provide():
        calls.append(1)
        return "good-token"

    for _ in range(2):
        await (await opened(broker, **LOGINS["OAUTHBEARER"] | {"sasl_oauth_token_provider": provide})).close()
    assert len(calls) == 2
    assert broker.logins == 2


@pytest.mark.parametrize("client", [Producer, Reader, Admin])
async def test_clients_do_not_repeat_a_login_that_is_refused(broker, client):
    servers = f"127.0.0.1:{broker.port}"
    made = client(bootstrap_servers=servers, **wrong("PLAIN"))
    with pytest.raises(AuthenticationError):
        await made.start()
    await made.close()
    assert len(broker.seen(ApiKey.SASL_AUTHENTICATE)) == 1


async def test_a_record_fails_when_the_login_is_refused_later(broker):
    servers = f"127.0.0.1:{broker.port}"
    producer = Producer(bootstrap_servers=servers, **LOGINS["PLAIN"])
    await producer.start()
    broker.script[ApiKey.SASL_AUTHENTICATE] = [ErrorCode.SASL_AUTHENTICATION_FAILED] * 100
    broker.drop_connections()
    await until(lambda: broker.connections == 0, "the connection is closed")
    with pytest.raises(AuthenticationError):
        await producer.send("t", b"lost", partition=0)
    await producer.close(timeout_s=0)


async def test_produce_and_read(broker):
    servers = f"127.0.0.1:{broker.port}"
    options = LOGINS["SCRAM-SHA-512"]
    async with Producer(bootstrap_servers=servers, **options) as producer:
        assert (await producer.send("t", b"one", partition=0)).offset == 0
    async with Reader(bootstrap_servers=servers, **options) as reader:
        assert await reader.partitions_for("t") == [0]


# ---- sessions that end (KIP-368)


def hold(broker, api_key):
    """Let the broker answer the next request of an API when the returned event is set."""
    release = asyncio.Event()

    async def answer(request, version):
        await release.wait()
        return getattr(broker, f"_{ApiKey(api_key).name.lower()}")(request, version, ErrorCode.NONE)

    broker.script[api_key].append(answer)
    return release


async def test_a_session_is_renewed_before_it_ends(broker):
    broker.lifetime_ms = 100
    async with await opened(broker, **LOGINS["SCRAM-SHA-256"]) as connection:
        await until(lambda: broker.logins >= 3, "two more logins")
        assert not connection.is_closed
        broker.lifetime_ms = 0
        await connection.call(MetadataRequest(topics=[]), MetadataResponse)
    assert len(broker.seen(ApiKey.API_VERSIONS)) == 1


async def test_a_renewed_login_disturbs_no_request(broker):
    broker.lifetime_ms = 100
    before = hold(broker, ApiKey.METADATA)
    async with await opened(broker, **LOGINS["PLAIN"]) as connection:
        first = connection.submit(MetadataRequest(topics=[]), MetadataResponse, 9)
        handshake = hold(broker, ApiKey.SASL_HANDSHAKE)
        broker.lifetime_ms = 0
        # The login begins behind the request in flight; a request that follows it waits for its end.
        await until(lambda: connection.in_flight == 2, "the next login")
        later = [connection.submit(MetadataRequest(topics=[]), MetadataResponse, 9) for _ in range(2)]
        before.set()
        await first
        await until(lambda: len(broker.seen(ApiKey.SASL_HANDSHAKE)) == 2, "the handshake arrives")
        assert len(broker.seen(ApiKey.METADATA)) == 1
        handshake.set()
        assert [answer.cluster_id for answer in await asyncio.gather(*later)] == ["fake"] * 2
    keys = [key for key, _ in broker.requests[-5:]]
    assert keys == [ApiKey.METADATA, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, *[ApiKey.METADATA] * 2]


async def test_a_renewed_login_that_is_refused_ends_the_connection(broker):
    broker.lifetime_ms = 100
    async with await opened(broker, **LOGINS["PLAIN"]) as connection:
        broker.script[ApiKey.SASL_AUTHENTICATE] = [ErrorCode.SASL_AUTHENTICATION_FAILED]
        before = hold(broker, ApiKey.SASL_HANDSHAKE)
        await until(lambda: connection.in_flight == 1, "the next login")
        waiting = connection.submit(MetadataRequest(topics=[]), MetadataResponse, 9)
        before.set()
        with pytest.raises(AuthenticationError):
            await waiting
        assert connection.is_closed


async def test_without_a_token_the_session_goes_on_until_its_end(broker):
    answers = ["good-token", KafkaError(), "good-token"]

    class UnavailableError(KafkaError):
        retriable = True

    def provide():
        answer = answers.pop(0)
        if isinstance(answer, KafkaError):
            raise UnavailableError("later")
        return answer

    broker.lifetime_ms = 400
    async with await opened(broker, **LOGINS["OAUTHBEARER"] | {"sasl_oauth_token_provider": provide}) as connection:
        broker.lifetime_ms = 0
        await until(lambda: broker.logins == 2, "the next login")
        assert not connection.is_closed


async def test_a_connection_that_closes_during_a_login_leaves_no_task(broker):
    broker.lifetime_ms = 100
    connection = await opened(broker, **LOGINS["PLAIN"])
    broker.script[ApiKey.SASL_HANDSHAKE] = [SILENCE]
    await until(lambda: connection.in_flight == 1, "the next login")
    await connection.close()
    with pytest.raises(KafkaError):
        await connection.request(MetadataRequest(topics=[]))


async def test_a_connection_that_is_lost_during_a_login(broker):
    broker.script[ApiKey.SASL_AUTHENTICATE] = [CLOSE]
    with pytest.raises(KafkaError, match="closed by the broker") as caught:
        await opened(broker, **LOGINS["PLAIN"])
    assert caught.value.retriable
