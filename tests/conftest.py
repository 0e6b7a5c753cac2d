"""Who gets a second chance where `--reruns` grants one: not the counted tests, whose failures may be rare and real."""

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("counted") is not None:
            item.add_marker(pytest.mark.flaky(reruns=0))
