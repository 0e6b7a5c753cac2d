"""What holds for all tests: no test asserts a time, and who gets a second chance where `--reruns` grants one."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Not the counted tests, whose failures may be rare and real."""
    for item in items:
        if item.get_closest_marker("counted") is not None:
            item.add_marker(pytest.mark.flaky(reruns=0))
