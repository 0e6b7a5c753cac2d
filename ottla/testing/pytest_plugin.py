"""The pytest plugin: fixtures for a broker, clusters, topics, groups and clients.

    def test_orders(ottla_broker, ottla_topic):
        producer = confluent_kafka.Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
        producer.produce(ottla_topic, b"one")

pytest imports this module in every run, so it imports nothing but pytest: everything else is imported, and brokers are
started, when a test asks for a fixture. Every worker of pytest-xdist has brokers of its own.

The clients of the fixtures block, because that works in every test: without a plugin for asyncio, and also within a
coroutine, as the brokers run in a thread of their own. `client` of a fixture is the asyncio client.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from client.admin.admin import Admin
    from client.consumer.consumer import Consumer
    from client.producer.producer import Producer
    from ottla.testing.blocking import Blocking
    from ottla.testing.broker_thread import BrokerThread
    from ottla.testing.cluster_thread import ClusterThread
    from ottla.testing.faults.faults import Faults
    from ottla.testing.servers import Servers

_SERVERS = pytest.StashKey["Servers"]()
_USED = pytest.StashKey["ClusterThread"]()
_MARKERS = (
    "ottla_cluster(brokers=3, settings={}, isolation='topics'): the cluster of ottla_cluster; 'cluster': an empty one",
    "ottla_topic(partitions=None, replication_factor=None, configs={}): the topic of the fixture ottla_topic",
)


# -- options -----------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the command line and of the ini file."""
    group = parser.getgroup("ottla", "Kafka brokers for tests (Ottla)")

    def add(name: str, text: str, *, ini: str = "string", default: object = None, **more: Any) -> None:
        group.addoption(f"--ottla-{name}", dest=f"ottla_{name.replace('-', '_')}", help=text, default=None, **more)
        ini_name = f"ottla_{name.replace('-', '_')}" + ("s" if ini == "linelist" else "")
        parser.addini(ini_name, f"{text} (--ottla-{name} overrides it)", type=ini, default=default)  # type: ignore[arg-type]

    add("setting", "a setting of all brokers", ini="linelist", default=[], action="append", metavar="NAME=VALUE")
    add("version", "the Kafka release whose API versions the brokers have, e.g. 2.8", metavar="RELEASE")
    add("brokers", "how many brokers a cluster has if the test does not say", default="3", metavar="N")
    add("isolation", "topics: tests share brokers; cluster: each begins with empty ones", default="topics")
    add("keep-data", "copy the data of the brokers of a failed test into a folder of DIR", metavar="DIR")
    add("log-level", "the level of the brokers' log in reports of failed tests", default="INFO", metavar="LEVEL")
    add("requests", "how many of the last requests reports of failed tests have", default="30", metavar="N")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Have Ottla's modules imported as they are."""
    keep_asserts(early_config, "ottla")


def keep_asserts(config: pytest.Config, *packages: str) -> None:
    """Have pytest import these packages without rewriting their asserts: that would compile every module again.

    It rewrites all packages of a distribution with a plugin, of which none is compiled yet in most runs of CI. This
    costs a second of CPU, more than a broker and its tests. There is no public function to keep it from that.
    """
    rewritten: set[str] = getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", set())
    rewritten.difference_update(packages)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


def _fail(message: str) -> NoReturn:
    """Fail a fixture whose options or arguments are wrong. The report has only the message."""
    pytest.fail(message, pytrace=False)


@contextlib.contextmanager
def _mistakes_of(what: str) -> Iterator[None]:
    """Show only the message of an error that tells of a wrong setting: frames of Ottla's code do not help."""
    from broker.main import EXPECTED  # brokers: only for tests that use them
    from client.errors import KafkaError

    try:
        yield
    except (KafkaError, ValueError, *EXPECTED) as error:
        _fail(f"{what}: {error}")


def _option(config: pytest.Config, name: str) -> Any:
    value = config.getoption(f"ottla_{name}")
    return config.getini(f"ottla_{name}") if value is None else value


def _number(config: pytest.Config, name: str, least: int) -> int:
    text = str(_option(config, name))
    if not text.isdecimal() or int(text) < least:
        _fail(f"--ottla-{name} {text}: must be a number, {least} or more")
    return int(text)


def _settings(config: pytest.Config) -> dict[str, str]:
    settings = {}
    for one in [*config.getini("ottla_settings"), *(config.getoption("ottla_setting") or [])]:
        name, equals, value = one.partition("=")
        if not equals:
            _fail(f"--ottla-setting {one}: must be NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def _new_servers(config: pytest.Config, scratch: Callable[[str], Path]) -> Servers:
    from ottla.testing.servers import ISOLATIONS, ServerOptions, Servers  # brokers: only for tests that use them

    isolation, keep_data = _option(config, "isolation"), _option(config, "keep_data")
    if isolation not in ISOLATIONS:
        _fail(f"--ottla-isolation {isolation}: must be one of {', '.join(ISOLATIONS)}")
    level = logging.getLevelNamesMapping().get(str(_option(config, "log_level")).upper())
    if level is None:
        _fail(f"--ottla-log-level {_option(config, 'log_level')}: is no level of a log")
    options = ServerOptions(
        settings=_settings(config),
        version=_option(config, "version") or None,
        brokers=_number(config, "brokers", 1),
        isolation=isolation,
        keep_data=(config.invocation_params.dir / keep_data) if keep_data else None,
        log_level=level,
        requests=_number(config, "requests", 0),
    )
    return Servers(options, scratch("ottla") if keep_data else None)


# -- brokers -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def ottla_servers(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The brokers of this session, for fixtures of your own with a wide scope."""
    servers = pytestconfig.stash[_SERVERS] = _new_servers(pytestconfig, tmp_path_factory.mktemp)
    try:
        yield servers
    finally:
        del pytestconfig.stash[_SERVERS]
        servers.close()


@pytest.fixture(scope="session")
def ottla_broker(ottla_servers: Servers) -> BrokerThread:
    """A broker for the whole session, as `ottla.testing.broker()` starts it. `bootstrap_servers` is its address."""
    with _mistakes_of("ottla_broker"):
        return ottla_servers.broker()


@pytest.fixture
def ottla_cluster(request: pytest.FixtureRequest, ottla_servers: Servers) -> Iterator[ClusterThread]:
    """A cluster, as `ottla.testing.cluster()` starts it, shared by all tests that ask for the same one.

    The mark `ottla_cluster` or an indirect parameter (a number of brokers, or a dict of the mark's arguments) says
    which. After the test, faults are healed and all brokers run.
    """
    from ottla.testing.servers import ISOLATIONS, ClusterSpec  # as above

    wanted = _arguments(request, "ottla_cluster", ("brokers", "settings", "isolation"))
    isolation = wanted.get("isolation", ottla_servers.options.isolation)
    if isolation not in ISOLATIONS:
        _fail(f"ottla_cluster: isolation={isolation!r} must be one of {', '.join(ISOLATIONS)}")
    settings = tuple(sorted((name, str(value)) for name, value in wanted.get("settings", {}).items()))
    brokers = wanted.get("brokers", ottla_servers.options.brokers)
    if not isinstance(brokers, int):
        _fail(f"ottla_cluster: brokers={brokers!r} must be a number")
    with _mistakes_of("ottla_cluster"):
        cluster = ottla_servers.cluster(ClusterSpec(brokers, settings))
    yield from _used(request, ottla_servers, cluster, isolation)


@pytest.fixture
def ottla_server(request: pytest.FixtureRequest, ottla_servers: Servers) -> Iterator[ClusterThread]:
    """What the other fixtures use: the cluster if the test asks for one, by fixture or by mark, else the broker."""
    if "ottla_cluster" in request.fixturenames or request.node.get_closest_marker("ottla_cluster"):
        yield request.getfixturevalue("ottla_cluster")
    else:
        broker = request.getfixturevalue("ottla_broker")
        yield from _used(request, ottla_servers, broker, ottla_servers.options.isolation)


def _used(
    request: pytest.FixtureRequest, servers: Servers, server: ClusterThread, isolation: str
) -> Iterator[ClusterThread]:
    servers.begin(server, isolation)
    request.node.stash[_USED] = server
    yield server
    server.restore()


def _arguments(request: pytest.FixtureRequest, name: str, known: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments of a mark, and of an indirect parameter over them. Fails for wrong ones."""
    arguments: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers(name))):
        if marker.args:
            _fail(f"mark {name}: arguments need names: {', '.join(known)}")
        arguments |= marker.kwargs
    parameter = getattr(request, "param", {})
    arguments |= dict(parameter) if isinstance(parameter, Mapping) else {known[0]: parameter}
    for argument in arguments:
        if argument not in known:
            _fail(f"{name}: there is no argument {argument}, only {', '.join(known)}")
    return arguments


@pytest.fixture
def ottla_faults(ottla_server: ClusterThread) -> Iterator[Faults]:
    """What can go wrong on command: `ottla_faults.kill(broker=2)`. Everything is healed after the test."""
    yield ottla_server.faults
    ottla_server.restore()


# -- topics, groups and clients ----------------------------------------------------------------------------------------


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest, ottla_server: ClusterThread, ottla_servers: Servers) -> Iterator[str]:
    """The name of a fresh topic, whose partitions have leaders; it is deleted after the test.

    The mark `ottla_topic` or an indirect parameter (a number of partitions, or a dict of the mark's arguments) says
    how it is created. By default it has the brokers' default number of partitions and replicas.
    """
    wanted = _arguments(request, "ottla_topic", ("partitions", "replication_factor", "configs"))
    wanted["configs"] = {name: str(value) for name, value in wanted.get("configs", {}).items()}
    name = ottla_servers.new_name(request.node.name)
    with _mistakes_of("ottla_topic"):
        ottla_server.create_topic(name, **wanted)
    yield name
    ottla_server.restore()
    _delete_topic(ottla_server, name)


def _delete_topic(server: ClusterThread, name: str) -> None:
    from client.errors import KafkaError  # as above

    try:
        server.delete_topic(name)
    except KafkaError as error:
        if type(error).__name__ != "UnknownTopicOrPartitionError":  # the test has deleted it
            raise


@pytest.fixture
def ottla_group(request: pytest.FixtureRequest, ottla_servers: Servers) -> str:
    """A group id that no other test uses."""
    return ottla_servers.new_name(request.node.name)


@pytest.fixture
def ottla_client_options(ottla_server: ClusterThread) -> dict[str, Any]:
    """The options of the fixtures' clients. Replace this fixture by your own if brokers need TLS or a login."""
    return {"bootstrap_servers": ottla_server.bootstrap_servers}


@pytest.fixture
def ottla_admin(ottla_server: ClusterThread, ottla_client_options: dict[str, Any]) -> Iterator[Blocking[Admin]]:
    """An `ottla.Admin` whose methods block."""
    from client.admin.admin import Admin  # as above

    yield from _client(ottla_server, lambda: Admin(**ottla_client_options))


@pytest.fixture
def ottla_producer(ottla_server: ClusterThread, ottla_client_options: dict[str, Any]) -> Iterator[Blocking[Producer]]:
    """An `ottla.Producer` whose methods block: `ottla_producer.send(topic, value)` returns the record's offset."""
    from client.producer.producer import Producer  # as above

    yield from _client(ottla_server, lambda: Producer(**ottla_client_options))


@pytest.fixture
def ottla_consumer(
    request: pytest.FixtureRequest, ottla_server: ClusterThread, ottla_client_options: dict[str, Any], ottla_group: str
) -> Iterator[Blocking[Consumer]]:
    """An `ottla.Consumer` whose methods block, in the group `ottla_group`, that reads from the beginning.

    It has subscribed to `ottla_topic` if the test uses that fixture.
    """
    from client.consumer.consumer import Consumer  # as above

    topics = [request.getfixturevalue("ottla_topic")] if "ottla_topic" in request.fixturenames else []
    options = {"group_id": ottla_group, "auto_offset_reset": "earliest"} | ottla_client_options
    yield from _client(ottla_server, lambda: Consumer(*topics, **options))


def _client(server: ClusterThread, new: Callable[[], Any]) -> Iterator[Any]:
    from ottla.testing.blocking import Blocking  # as above

    async def opened() -> Any:
        client = new()
        await client.start()
        return client

    client = server.call(opened)
    try:
        yield Blocking(client, server.call)
    finally:
        server.restore()  # a client that is closed may wait for a broker
        server.call(client.close)


# -- reports -----------------------------------------------------------------------------------------------------------


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Restore the broker if the last test has used nothing but `ottla_broker`, and begin the log of a new test."""
    if (servers := item.config.stash.get(_SERVERS, None)) is not None:
        if servers.running_broker is not None:
            servers.running_broker.restore()
        servers.forget_lines()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the brokers' log and the last requests to the report of a failed test."""
    report = yield
    if report.failed:
        servers = item.config.stash.get(_SERVERS, None)
        if servers is not None and (server := _server_of(item, servers)) is not None:
            report.sections += servers.report(server, item.name)
    return report


def _server_of(item: pytest.Item, servers: Servers) -> ClusterThread | None:
    used = item.stash.get(_USED, None)
    if used is None and "ottla_broker" in getattr(item, "fixturenames", ()):
        used = servers.running_broker
    return used
