"""Who looks at the console."""

from ottla import testing
from support.rest import rest_api


async def test_the_console_of_ottla_console():
    with testing.broker() as broker:
        async with rest_api(broker.bootstrap_servers) as rest:
            assert await rest.get("/api/v1/session") == {
                "cluster_id": rest.cluster_id,
                "broker_id": None,
                "user": None,
                "may_change": True,
            }
