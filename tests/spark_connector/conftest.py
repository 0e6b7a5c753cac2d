from __future__ import annotations

import pytest

from support.spark import start_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One Spark for all tests of a process: it takes seconds to start."""
    session = start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
