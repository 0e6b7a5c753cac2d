"""A broker in a thread of this process, with an event loop of its own: a cluster of one broker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ottla.testing.cluster_thread import SETTINGS, ClusterThread, release_settings
from ottla.testing.member import Member


class BrokerThread(ClusterThread):
    """A broker in a thread. A context manager, `with` and `async with`; or call `start` and `stop`.

    `start` may be called again after `stop`: with a `directory` the broker then has its data again, on another port
    unless `listeners` names one. The broker has the id 0 unless `broker.id` is set.
    """

    _what = "broker"

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        version: str | None = None,
        directory: Path | str | None = None,
    ) -> None:
        """settings: broker settings by Kafka's names, over `SETTINGS`.

        version: the Kafka release whose API versions the broker has: see `versions`.

        directory: the log directory, which is kept; by default a temporary one, which `stop` removes.

        Raises ValueError for an unknown version.
        """
        own = SETTINGS | release_settings(version) | dict(settings or {})
        self._prepare(directory, {int(own.get("broker.id", "0")): own}, version)

    @property
    def member(self) -> Member:
        """The broker. Raises RuntimeError if it does not run."""
        (member,) = self.brokers.values()
        return member

    def _log_dirs(self, broker_id: int) -> Path:
        return self._data


def broker(
    settings: Mapping[str, str] | None = None, *, version: str | None = None, directory: Path | str | None = None
) -> BrokerThread:
    """Return a broker for a `with` or `async with` statement; it starts when the block begins. See `BrokerThread`."""
    return BrokerThread(settings, version=version, directory=directory)
