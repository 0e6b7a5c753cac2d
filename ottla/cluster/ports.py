"""Ports for servers on this machine that restart on the same port."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
_LOWEST: Final = 10_000
_HANDED_OUT_FROM: Final = 32_768
_SETTING: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_MOST_CLAIMED: Final = 200
_claimed: deque[int] = deque()
"""What claims the latest ports: file descriptors of sockets with their names, which one process at a time can have."""


def free_ports(count: int) -> list[int]:
    """Return different ports that are free now and that no other call has claimed, in this process or in another one.

    They are below the system's ephemeral ports: any connection could take an ephemeral port while a server restarts.
    A process claims the latest 200 ports that it was given until it ends. Raises OSError if fewer than `count` ports
    are free.
    """
    found: list[int] = []
    with contextlib.ExitStack() as sockets:
        for port in candidates():
            if len(found) == count:
                break
            probe = sockets.enter_context(socket.socket())
            # With this option and without listen(), a server that starts on the port at this moment is not refused.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                _claim(port)
                found.append(port)
    if len(found) < count:
        raise OSError(f"no {count} ports are free on {HOST}")
    return found


def candidates() -> Iterator[int]:
    """All ports that may be returned, from a random one on."""
    first_handed_out = _first_handed_out()
    start = random.SystemRandom().randrange(_LOWEST, first_handed_out)
    return itertools.chain(range(start, first_handed_out), range(_LOWEST, start))


def _claim(port: int) -> None:
    """Claim a port. Raises OSError if another call has claimed it. Only Linux has such names: no claim elsewhere."""
    if sys.platform != "linux":
        return
    with socket.socket(socket.AF_UNIX) as claim:
        claim.bind(f"\0ottla port {HOST}:{port}")  # \0: no file, and gone with its process
        _claimed.append(claim.detach())
    if len(_claimed) > _MOST_CLAIMED:
        os.close(_claimed.popleft())


def _first_handed_out() -> int:
    try:
        first = int(_SETTING.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = _HANDED_OUT_FROM
    return first if first > 2 * _LOWEST else _HANDED_OUT_FROM
