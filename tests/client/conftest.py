import pytest

from support.mock_cluster import MockCluster


@pytest.fixture(scope="session")
def mock_cluster():
    return MockCluster()
