"""Ports for servers on this machine that restart on the same port."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
_LOWEST: Final = 10_000
_HANDED_OUT_FROM: Final = 32_768
_SETTING: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Return different ports that are free now.

    They are below the system's ephemeral ports: any connection could take an ephemeral port while a server restarts.
    Raises OSError if fewer than `count` ports are free.
    """
    candidates = list(range(_LOWEST, _first_handed_out()))
    random.SystemRandom().shuffle(candidates)
    found: list[int] = []
    with contextlib.ExitStack() as sockets:
        for port in candidates:
            if len(found) == count:
                break
            probe = sockets.enter_context(socket.socket())
            # With this option and without listen(), a server that starts on the port at this moment is not refused.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                found.append(port)
    if len(found) < count:
        raise OSError(f"no {count} ports are free on {HOST}")
    return found


def _first_handed_out() -> int:
    try:
        first = int(_SETTING.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = _HANDED_OUT_FROM
    return first if first > 2 * _LOWEST else _HANDED_OUT_FROM
