"""Whether this broker can be sure of the partitions that it leads.

While its session is connected, the controller has not declared it dead. When the connection is lost, the session may
end without the broker's knowledge. When it has ended, the broker registers again, and is sure once the controller has
sent it the leaders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from protocol.sentinels import UNKNOWN_BROKER_EPOCH
from registry.interface import ConnectionState

if TYPE_CHECKING:
    from registry.interface import Registry


class LeadershipCertainty:
    """Follows the registry's session, and what the controller sends."""

    def __init__(self, registry: Registry, broker_epoch: Callable[[], int]) -> None:
        """broker_epoch: of the latest registration."""
        self._registry = registry
        self._broker_epoch = broker_epoch
        self._ended: int | None = None
        """The broker epoch of a registration that has ended, until the controller has answered the next one."""
        registry.listen(self._state_changed)

    @property
    def is_sure(self) -> bool:
        """False while another broker may lead this broker's partitions, and this broker may not have heard of it."""
        return self._ended is None and self._registry.state is ConnectionState.CONNECTED

    def told(self, broker_epoch: int) -> None:
        """The controller has sent the leaders to the broker of this epoch (UNKNOWN_BROKER_EPOCH: an old controller)."""
        if self._ended is not None and (broker_epoch > self._ended or broker_epoch == UNKNOWN_BROKER_EPOCH):
            self._ended = None

    def _state_changed(self, state: ConnectionState) -> None:
        if state is ConnectionState.EXPIRED:
            self._ended = self._broker_epoch()
