"""One broker for all tests of a module, and connections to it: most tests of an API differ only in their topic."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from broker.broker import Broker
from registry.embedded.store import EmbeddedStore
from support.broker import running_broker
from support.disks import Disks
from support.wire import WireClient, wire_client

_NUMBERS = itertools.count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    """A broker without auto-creation; tests that use it say `pytestmark = pytest.mark.asyncio(loop_scope="module")`."""
    data = tmp_path_factory.mktemp("broker") / "data"
    async with running_broker(data, auto_create_topics_enable="false") as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def client(broker: Broker) -> AsyncIterator[WireClient]:
    """A connection to it."""
    async with wire_client(broker.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def name() -> Callable[[], str]:
    """Makes topic names that no other test has."""
    return lambda: f"topic-{next(_NUMBERS)}"


@pytest.fixture
async def disks(tmp_path: Path) -> AsyncIterator[Disks]:
    """A broker with several log directories, to be started by the test, maybe more than once."""
    store = await EmbeddedStore.open()
    yield Disks(tmp_path, store)
    await store.close()
