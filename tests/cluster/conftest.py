"""Clusters with the servers and the security that `with_security` names."""

from functools import partial

import pytest

from support.cluster import broker_cluster
from support.cluster_security import REGISTRY, SECURED_ZOOKEEPER, ZOOKEEPER
from support.secured_zookeeper import shared_secured_zookeeper
from support.zookeeper import shared_registry, shared_zookeeper

SERVERS = {ZOOKEEPER: shared_zookeeper, SECURED_ZOOKEEPER: shared_secured_zookeeper, REGISTRY: shared_registry}


@pytest.fixture
def zookeeper(request):
    """A ZooKeeper, one with TLS and a login, or an `ottla registry`."""
    return SERVERS[request.param]()


@pytest.fixture
def start_cluster(tmp_path, zookeeper, security):
    """Start a cluster: see `broker_cluster`."""
    return partial(broker_cluster, tmp_path, zookeeper=zookeeper, security=security)
