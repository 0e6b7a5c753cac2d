"""What holds for all tests: hypothesis asserts no time, time limits scale with the machine, the summary names skips."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from support.deadlines import PACE, TEST_TIMEOUT_S

settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")


def pytest_report_header() -> str:
    """Say what the deadlines of this run are made of."""
    return f"deadlines: this machine is {PACE:g} times slower than the reference"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test its time limit (pytest-timeout), scaled: its own mark's, or the common one."""
    for item in items:
        mark = item.get_closest_marker("timeout")
        seconds = TEST_TIMEOUT_S if mark is None else mark.args[0] * PACE
        item.add_marker(pytest.mark.timeout(seconds), append=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line for each reason how many tests were skipped: pytest's own summary has one for each file."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    for reason, number in reasons.items():
        terminalreporter.line(f"{number} skipped: {' '.join(reason.split())}")
