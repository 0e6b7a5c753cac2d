import pytest

from support.broker import broker_process
from support.mock_cluster import MockCluster


@pytest.fixture(scope="session")
def mock_cluster():
    return MockCluster()


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """Our own broker, a process of its own. Records of tests may have times of long ago."""
    with broker_process(tmp_path_factory.mktemp("broker") / "data", log_retention_ms="-1") as process:
        yield process
