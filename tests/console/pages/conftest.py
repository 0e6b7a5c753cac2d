"""One browser for all tests of a module, and a console for one broker."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from ottla import testing
from ottla.testing.broker_thread import BrokerThread
from support.browser import chromium
from support.console_pages import ConsolePages, console_pages


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with testing.broker() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(browser: Browser, broker: BrokerThread) -> AsyncIterator[ConsolePages]:
    async with console_pages(browser, broker.bootstrap_servers) as pages:
        yield pages
