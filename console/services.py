"""What all operations share: the clients of the cluster, and what only a broker of Ottla knows about itself."""

from __future__ import annotations

from dataclasses import dataclass

from console.clients import Clients
from console.inside import Inside


@dataclass(frozen=True)
class ConsoleServices:
    """The parts of one console. Handlers get them as `call.services`."""

    clients: Clients
    inside: Inside | None = None
    """The broker that serves this console; None for `ottla console`."""
