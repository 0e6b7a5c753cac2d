"""One browser for all modules, and a console for each: `ottla console`, and in the full run that of each broker.

The browser is of one event loop, so the tests of all modules run in that of the session.
"""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from ottla import testing
from ottla.testing.cluster_thread import ClusterThread
from support.browser import chromium
from support.console_cluster import BROKERS, ConsoleCluster, console_cluster
from support.console_pages import ConsolePages, console_pages
from support.counts import FULL

OF_BROKERS = [pytest.param(broker, id=f"broker-{broker}", marks=pytest.mark.counted) for broker in BROKERS if FULL]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Look at the console of a broker from a desktop only: what differs on a phone is the same in each console."""

    def is_repeated(item: pytest.Item) -> bool:
        chosen = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        return chosen.get("console_of") is not None and chosen.get("look") == "phone"

    if repeated := [item for item in items if is_repeated(item)]:
        config.hook.pytest_deselected(items=repeated)
        items[:] = [item for item in items if not is_repeated(item)]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def brokers_needed() -> int:
    """How many brokers a module needs at least."""
    return 1


@pytest.fixture(scope="module", params=[pytest.param(None, id="ottla-console"), *OF_BROKERS])
def console_of(request: pytest.FixtureRequest) -> int | None:
    """The broker whose console it is; None: `ottla console`."""
    broker: int | None = request.param
    return broker


@pytest.fixture(scope="module")
def own_consoles(console_of: int | None, broker_settings: dict[str, str]) -> Iterator[ConsoleCluster | None]:
    """Three brokers with consoles; None if the tests are for `ottla console`."""
    if console_of is None:
        yield None
        return
    with console_cluster(broker_settings) as running:
        yield running


@pytest.fixture(scope="module")
def broker(
    own_consoles: ConsoleCluster | None, broker_settings: dict[str, str], brokers_needed: int
) -> Iterator[ClusterThread]:
    """The broker of a module, or its brokers."""
    if own_consoles is not None:
        yield own_consoles.cluster
        return
    with (
        testing.broker(broker_settings) if brokers_needed == 1 else testing.cluster(brokers_needed, broker_settings)
    ) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(
    browser: Browser, broker: ClusterThread, own_consoles: ConsoleCluster | None, console_of: int | None
) -> AsyncIterator[ConsolePages]:
    """The console's pages."""
    if own_consoles is None or console_of is None:
        pages = console_pages(browser, broker.bootstrap_servers)
    else:
        pages = own_consoles.pages(browser, console_of)
    async with pages as running:
        yield running
