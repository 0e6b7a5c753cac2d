"""The ZooKeeper of the tests: one process for the whole run of pytest, started when first asked for.

A test gets a chroot of its own on it, and breaks connections with a proxy; who breaks servers starts an ensemble.
"""

import asyncio
import atexit
import functools
import itertools
import os
from concurrent.futures import ThreadPoolExecutor

from ottla.zookeeper_server import ZooKeeperEnsemble

_numbers = itertools.count(1)


@functools.cache
def shared_zookeeper():
    """The one ZooKeeper, ready."""
    ensemble = ZooKeeperEnsemble(sync=False)
    atexit.register(ensemble.close)
    with ThreadPoolExecutor(1) as thread:  # the caller may be in an event loop
        thread.submit(asyncio.run, ensemble.start()).result()
    return ensemble


def new_chroot():
    """A path that no other test uses."""
    return f"/test-{os.getpid()}-{next(_numbers)}"
