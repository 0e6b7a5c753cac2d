"""Which event loop commands and brokers run on."""

import asyncio
import os
import sys

import pytest
import uvloop

from client.wire.event_loop import new_event_loop


@pytest.mark.skipif("OTTLA_PERTURB" in os.environ, reason="make test-perturbed has another loop")
def test_uvloop_is_used_if_it_is_installed(monkeypatch):
    loop = new_event_loop()
    loop.close()
    assert isinstance(loop, uvloop.Loop)
    monkeypatch.setitem(sys.modules, "uvloop", None)  # an import of it fails
    loop = new_event_loop()
    loop.close()
    assert isinstance(loop, asyncio.SelectorEventLoop)
