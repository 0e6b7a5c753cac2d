"""One broker process for all tests of a module."""

import pytest

from support.broker import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A broker as a user has it: a process, with default settings."""
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data") as process:
        yield process
        assert "Traceback" not in process.log_text()
        assert process.stop() == 0
