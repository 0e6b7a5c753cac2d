"""The order of `make test-full`: what may take longest comes first, so that no process works alone in the end."""

from __future__ import annotations

import pytest

from support.counts import FULL


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if FULL:
        usual_s = float(config.getini("timeout"))
        items.sort(key=lambda item: _deadline_s(item) or usual_s, reverse=True)


def _deadline_s(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return 0.0 if marker is None else float(marker.args[0])
