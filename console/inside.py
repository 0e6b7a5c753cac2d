"""What a broker of Ottla tells the console that it serves, and no request of Kafka's protocol answers.

`console/` defines this interface and imports nothing of the broker; `broker/console/inside.py` implements it.
"""

from __future__ import annotations

from typing import Protocol


class Inside(Protocol):
    """One broker, as its own console sees it."""

    @property
    def broker_id(self) -> int:
        """The id of the broker."""
