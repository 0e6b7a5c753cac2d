"""A cluster changes from PLAINTEXT to SASL_SSL, and back, one broker after the other, while clients go on.

The steps are those of docs/security.md; what clients must not notice, in `support.changing_cluster`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.settings.checks import ACL_AUTHORIZER
from client.admin.admin import Admin
from client.errors import NoBrokersAvailableError
from support.changing_cluster import Change, ChangingCluster, changing
from support.cluster_security import PLAINTEXT, ClusterSecurity
from support.counts import full_only


@full_only
@pytest.mark.timeout(600)
async def test_from_plaintext_to_sasl_ssl_with_acls(tmp_path: Path) -> None:
    async with changing(ChangingCluster(tmp_path)) as (cluster, change):
        secured = cluster.secured
        acls = {"authorizer.class.name": ACL_AUTHORIZER, "super.users": secured.principal}
        await change_listeners(change, PLAINTEXT, secured.protocol, last=acls)
        await change.check()
        await nobody_is_let_in_without_a_login(cluster)


@full_only
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("has_authorizer", [False, True], ids=["without an authorizer", "with an authorizer"])
async def test_to_sasl_ssl_and_back(tmp_path: Path, has_authorizer: bool) -> None:
    """With an authorizer, the change needs no setting of Ottla's own: both users of brokers are super users."""
    async with changing(ChangingCluster(tmp_path, has_authorizer=has_authorizer)) as (cluster, change):
        await change_listeners(change, PLAINTEXT, cluster.secured.protocol)
        await change_listeners(change, cluster.secured.protocol, PLAINTEXT)
        await change.check()


async def change_listeners(change: Change, former: str, new: str, last: Mapping[str, str] | None = None) -> None:
    """The three restarts of every broker, as docs/security.md describes them. last: settings from the last one on."""
    cluster = change.cluster
    secured = cluster.secured
    both = {
        "listener.security.protocol.map": f"{former}:{former},{new}:{new}",
        "sasl.mechanism.inter.broker.protocol": secured.mechanism,
        **secured.of_listener(secured.protocol),
    }

    def between_brokers(used: str, other: str) -> dict[str, str]:
        others = {} if cluster.has_authorizer else {"ottla.inter.broker.listener.names": other}
        return {"inter.broker.listener.name": used, **others}

    await change.roll(both | between_brokers(former, new), former, new)
    await change.roll(both | between_brokers(new, former), former, new)
    clients = secured if new == secured.protocol else ClusterSecurity(PLAINTEXT, Path())
    await change.move_clients(f"clients of {new}", clients)
    await change.roll(both | {"inter.broker.listener.name": new} | dict(last or {}), new)


async def nobody_is_let_in_without_a_login(cluster: ChangingCluster) -> None:
    """Neither on the former port nor on the new one."""
    plain = ClusterSecurity(PLAINTEXT, Path())
    for servers in (cluster.servers(plain), cluster.servers(cluster.secured)):
        client = Admin(bootstrap_servers=servers)
        with pytest.raises(NoBrokersAvailableError):
            await client.start()
        await client.close()
