"""The event loop that commands and brokers run on: uvloop's if it is installed, else asyncio's."""

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop; a factory for `asyncio.Runner`. `pip install ottla[fast]` installs uvloop."""
    try:
        import uvloop  # optional
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
