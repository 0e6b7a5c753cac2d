"""Names that differ from test to test, and are the same in every run."""

import zlib

import pytest


def name_for(request: pytest.FixtureRequest, prefix: str) -> str:
    """Return a name for the test that asks for a fixture: tests that share a broker do not meet."""
    return f"{prefix}{zlib.crc32(request.node.nodeid.encode()):08x}"
