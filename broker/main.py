"""Run a broker as a process: settings, event loop, signals, and the messages on the terminal."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from broker.broker import Broker
from broker.errors import BrokerStartError
from broker.first_commands import READY, TRY, first_commands
from broker.log_dir_failures import RegistryDirectoryFailedError
from broker.settings.config import BrokerConfig
from client.wire.event_loop import new_event_loop
from registry.errors import RegistryError
from storage.errors import StorageError
from storage.setting import ConfigError

logger = logging.getLogger(__package__)

EXPECTED = (
    ConfigError,
    BrokerStartError,
    RegistryDirectoryFailedError,
    RegistryError,
    StorageError,
    OSError,
)
"""Errors that end a broker and are not bugs: printed as one line, without a traceback."""


def data_directory() -> Path:
    """Return the data directory of a broker without settings: ottla/data in $XDG_DATA_HOME or ~/.local/share."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "ottla" / "data"


def run(properties_path: Path | None = None, overrides: Mapping[str, str] | None = None, *, quiet: bool = False) -> int:
    """Run a broker until SIGTERM or SIGINT, and return the exit code. An error is one line on standard error."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        config = BrokerConfig.load(properties_path, overrides or {}, data_dir=data_directory(), environment=os.environ)
        for warning in config.warnings:
            logger.warning(warning)
        _allow_many_open_files()
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(config, quiet=quiet))
    except Exception as error:
        reason = _first_leaf(error)
        if not isinstance(reason, EXPECTED):
            raise
        print(f"ottla: {reason}", file=sys.stderr)
        return 1
    return 0


def _allow_many_open_files() -> None:
    """Raise the soft limit of open files to the hard limit: connections and log segments need descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(config: BrokerConfig, *, quiet: bool) -> None:
    broker = Broker(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, broker.stop)

    def ready(broker: Broker) -> None:
        gc.freeze()  # modules, tables and settings are permanent: the collector can skip them
        if not quiet:
            _say_ready(broker)

    await broker.run(ready)
    logger.info("stopped cleanly")


def _say_ready(broker: Broker) -> None:
    """Print the listeners, the data directories, the console's URL and three commands to try."""
    config = broker.config
    lines = ["", READY]
    lines += [f"  listening   {broker.advertised(listener)}" for listener in config.listeners]
    lines.append(f"  data        {', '.join(str(path) for path in config.log_dirs)}")
    if broker.console is not None:
        lines.append(f"  console     {broker.console.url}")
    lines += ["", TRY]
    lines += [f"  {command}" for command in first_commands(broker.bootstrap_servers)]
    lines.append("")
    print("\n".join(lines), flush=True)


def _first_leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
