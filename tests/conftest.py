"""Settings for all tests: hypothesis, time limits, the worker of each file, and the summary."""

import gc
import logging
import re
import signal
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from ottla.testing.pytest_plugin import keep_asserts
from support.counts import FULL
from support.deadlines import PACE, TEST_TIMEOUT_S

# The reduced run makes the same examples every time. The full run makes others, and prints how to make them again.
settings.register_profile(
    "ottla",
    deadline=None,
    derandomize=not FULL,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ottla")

HERE = Path(__file__).parent
LONGEST_FIRST = (
    (
        "cluster/test_faults.py",
        "spark_connector/test_kills.py",
        "simulation",
        "transfers",
        "storage",
        "broker/test_kill",
        "interop/test_groups.py",
        "spark_connector",
        "cluster",
        "soak",
    )
    if FULL
    else ("spark_connector", "interop/test_groups.py", "examples/test_testing_examples.py", "cluster/test_faults.py")
)
"""Folders and files that take longest: they start first, or one worker is still at them when the others are done."""

WAIT = {"cluster/test_faults.py", "interop/test_groups.py"}
"""Files whose tests wait nearly all the time: they run one after the other, while other workers compute."""

USE_SPARK = {
    "test_batch_source.py",
    "test_docs.py",
    "test_exactly_once.py",
    "test_lag_listener.py",
    "test_registration.py",
    "test_secured_clusters.py",
    "test_sink.py",
    "test_spark_environment.py",
    "test_stream_source.py",
}
"""Files with the Spark of the session: its Java takes half a minute of CPU until it is warm."""


PRODUCT = (
    "broker",
    "build_backend",
    "client",
    "console",
    "protocol",
    "pyspark_ottla",
    "registry",
    "replication",
    "security",
    "spark_connector",
    "storage",
)
"""The packages of the checkout, besides `ottla`: their asserts stay as they are."""

OF_A_CONSOLE = re.compile(r"\bbroker-\d")
"""The parameter of a test of pages that says whose console it looks at."""


def pytest_configure(config: pytest.Config) -> None:
    """Import the product as it is; let child processes have SIGHUP's default under nohup, too.

    They inherit that it is ignored, but no handler.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    keep_asserts(config, *PRODUCT)


def pytest_report_header() -> str:
    """The factor by which deadlines are longer on this machine."""
    return f"deadlines: this machine is {PACE:g} times slower than the reference"


class _FileScheduling(LoadFileScheduling):
    """A file runs on one worker, because its tests share what its fixtures have started; so do all that use Spark.

    In the full run each test is on its own, because some take minutes, but for those of a page and a console, those of
    Spark, and those that wait.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = Path(super()._split_scope(nodeid))
        if file.parent.name == "spark_connector" and file.name in USE_SPARK:
            return "spark"
        if not FULL or "/".join(file.parts[-2:]) in WAIT:
            return str(file)
        console = OF_A_CONSOLE.search(nodeid) if file.parent.name == "pages" else None
        return f"{file} {console[0]}" if console else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """What `--dist loadfile` does."""
    return _FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests, and give each its time limit (pytest-timeout), scaled: its own mark's, or the common one.

    The files of each folder are spread over the whole run: those of some wait, and those of others compute.
    """
    folders: dict[str, list[Path]] = defaultdict(list)
    for path in dict.fromkeys(item.path for item in items):
        folders[path.relative_to(HERE).parts[0]].append(path)
    places: dict[Path, tuple[int, float]] = {}
    for files in folders.values():
        for number, path in enumerate(files):
            name = path.relative_to(HERE).as_posix()
            longest = (place for place, start in enumerate(LONGEST_FIRST) if name.startswith(start))
            places[path] = next(longest, len(LONGEST_FIRST)), number / len(files)
    items.sort(key=lambda item: places[item.path])
    for item in items:
        mark = item.get_closest_marker("timeout")
        seconds = TEST_TIMEOUT_S if mark is None else mark.args[0] * PACE
        item.add_marker(pytest.mark.timeout(seconds), append=False)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and let it skip what the collection has made: 900,000 objects.

    Then it runs as seldom as in a broker's own process (`broker.main`): with Python's thresholds it would take a tenth
    of the CPU of a run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> None:
    """Undo what a shell does to commands started with &: they and their children ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _broker_lines_in_caplog(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let a test read what brokers log, although a shared broker of `ottla.testing` keeps it until the session ends."""
    if "caplog" not in request.fixturenames:
        yield
        return
    from ottla.testing.broker_log import PACKAGES  # only here: it imports the whole broker

    loggers = [logging.getLogger(name) for name in PACKAGES]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
    yield
    for logger, (level, propagates) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.propagate = propagates


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for each reason with the number of skipped tests: pytest's own summary has one for each file."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    for reason, number in reasons.items():
        terminalreporter.line(f"{number} skipped: {' '.join(reason.split())}")
