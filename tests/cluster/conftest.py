"""The registry of the clusters: a ZooKeeper, and in `make test-full` also `ottla registry`."""

import pytest

from support.counts import FULL
from support.zookeeper import shared_registry, shared_zookeeper


@pytest.fixture(params=["zookeeper", *(["registry"] if FULL else [])])
def zookeeper(request):
    """The address of the servers."""
    return (shared_registry if request.param == "registry" else shared_zookeeper)().connect
