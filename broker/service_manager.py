"""Messages to the service manager that has started the broker: systemd's sd_notify protocol.

A service of `Type=notify` gets a datagram socket in NOTIFY_SOCKET: a path, or a name in Linux's abstract namespace that
begins with `@`. A message has lines `NAME=value`: READY=1, STOPPING=1, WATCHDOG=1, STATUS=text. Without the variable,
nothing is sent. A message that cannot be sent is one warning, and never stops the broker.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping

logger = logging.getLogger(__name__)


class ServiceManager:
    """Sends messages to NOTIFY_SOCKET. It removes its variables from the environment: child processes must not send."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._address = environment.pop("NOTIFY_SOCKET", "")
        self._watchdog_s = _watchdog_s(environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", ""))
        self._is_stopping = False

    def status(self, text: str) -> None:
        """Set the text that `systemctl status` shows."""
        self._send(f"STATUS={text}")

    def ready(self, text: str) -> None:
        """Report that the broker serves clients."""
        self._send(f"READY=1\nSTATUS={text}")

    def stopping(self) -> None:
        """Report, once, that the broker has begun to stop."""
        if not self._is_stopping:
            self._is_stopping = True
            self._send("STOPPING=1\nSTATUS=stopping")

    async def run_watchdog(self) -> None:
        """Send WATCHDOG=1 twice in each WATCHDOG_USEC for as long as the event loop runs; return if there is none."""
        while self._address and self._watchdog_s:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_s / 2)

    def _send(self, message: str) -> None:
        if not self._address:
            return
        address = self._address.replace("@", "\0", 1) if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                connection.setblocking(False)  # a service manager that does not read must not stop the event loop
                connection.sendto(message.encode(), address)
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            logger.warning("the service manager at NOTIFY_SOCKET=%s cannot be reached: %s", self._address, error)
            self._address = ""


def _watchdog_s(interval_us: str, pid: str) -> float:
    """Return the interval in seconds; 0 if there is none, or it is meant for another process."""
    if not interval_us.isdigit() or (pid and pid != str(os.getpid())):
        return 0.0
    return int(interval_us) / 1e6
