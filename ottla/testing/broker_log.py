"""The log of the brokers in this process, kept apart from the log of the program that tests them."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any, Final

import broker
import registry
import replication
import security
import storage
from ottla.testing.process_loop import CURRENT

MAX_LINES: Final = 2_000
PACKAGES: Final = tuple(one.__name__ for one in (broker, replication, storage, registry, security))
"""The loggers of the brokers: their names begin with `ottla.` in a wheel."""
_CHANGED: Final = ("level", "propagate", "addHandler")
"""Attributes of a logger that `attach` changes; the last one is there only while a log is attached."""
_FORMAT: Final = "%(asctime)s.%(msecs)03d %(process_name)s%(levelname)s %(name)s: %(message)s"


class BrokerLog(logging.Handler):
    """Takes what the brokers log from `attach` to `detach`, and keeps the last lines.

    Meanwhile the lines do not reach the handlers of the program: `caplog` has only what the tested program logs.
    """

    def __init__(self, level: int = logging.INFO) -> None:
        super().__init__(level)
        self.setFormatter(logging.Formatter(_FORMAT, "%H:%M:%S"))
        self._kept: deque[str] = deque(maxlen=MAX_LINES)
        self._before: dict[str, dict[str, Any]] = {}
        """The attributes of the loggers before `attach`: another log may be attached."""

    def attach(self) -> None:
        """Begin to take what the brokers log."""
        for name in PACKAGES:
            logger = logging.getLogger(name)
            self._before[name] = {one: vars(logger)[one] for one in _CHANGED if one in vars(logger)}
            logging.Logger.addHandler(logger, self)
            logger.setLevel(self.level)
            logger.propagate = False
            # pytest adds the handler of caplog to each logger that does not propagate.
            logger.addHandler = _ignore  # type: ignore[method-assign]

    def detach(self) -> None:
        """Let everything be as it was before `attach`."""
        for name, before in self._before.items():
            logger = logging.getLogger(name)
            logger.removeHandler(self)
            del logger.addHandler
            vars(logger).update(before)
            logger.setLevel(before["level"])  # forgets which levels are enabled
        self._before.clear()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        process = CURRENT.get()
        record.process_name = "" if process is None else f"{process.name} "
        self._kept.append(self.format(record))

    def clear(self) -> None:
        """Forget the lines."""
        self._kept.clear()

    def text(self) -> str:
        """Return the lines."""
        return "\n".join(self._kept.copy())


def _ignore(hdlr: logging.Handler) -> None:
    """Stand in for `Logger.addHandler`."""
