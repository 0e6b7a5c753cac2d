"""A broker for each module, and the REST API of a console for it."""

import pytest

from ottla import testing
from support.rest import rest_api


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, str]:
    """What a module needs of its broker, by Kafka's names."""
    return {}


@pytest.fixture(scope="module")
def broker(broker_settings):
    with testing.broker(broker_settings) as running:
        yield running


@pytest.fixture
async def rest(broker):
    async with rest_api(broker.bootstrap_servers) as api:
        yield api
