"""Run a broker as a process: settings, event loop, signals, and the messages on the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from broker.broker import Broker
from broker.errors import BrokerStartError
from broker.first_commands import READY, TRY
from broker.log_dir_failures import RegistryDirectoryFailedError
from broker.log_lines import JSON, TEXT, json_line, set_up_log
from broker.service_manager import ServiceManager
from broker.settings.config import BrokerConfig
from broker.settings.environment import data_directory
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


_GC_THRESHOLDS = (10_000, 20, 50)
"""Of the garbage collector. A broker with thousands of partitions has millions of objects that stay, and an answer
about all topics makes 50,000 more. With Python's thresholds, (700, 10, 10), the collector would look at all of them
again and again. A collection of 10,000 new objects takes less than a millisecond.
"""


def run(
    properties_path: Path | None = None,
    overrides: Mapping[str, str] | None = None,
    *,
    quiet: bool = False,
    new_broker: Callable[[BrokerConfig], Broker] = Broker,
) -> int:
    """Run a broker until SIGTERM, SIGINT or SIGHUP. Return the exit code. An error is one line on standard error.

    new_broker: makes the broker, in the event loop.
    """
    manager = ServiceManager(os.environ)
    log_format = TEXT
    try:
        config = BrokerConfig.load(properties_path, overrides or {}, data_dir=data_directory(), environment=os.environ)
        log_format = config.ottla_log_format
        set_up_log(log_format, config.ottla_log_level)
        for warning in config.warnings:
            logger.warning(warning)
        _allow_many_open_files()
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(config, manager, new_broker, quiet=quiet))
    except Exception as error:
        reason = _first_leaf(error)
        is_expected = isinstance(reason, EXPECTED)
        manager.status(str(reason))
        if log_format == JSON:
            logger.critical("%s", reason, exc_info=None if is_expected else error)
        elif is_expected:
            print(f"ottla: {reason}", file=sys.stderr)
        else:
            raise
        return 1
    return 0


def _allow_many_open_files() -> None:
    """Raise the soft limit of open files to the hard limit: connections and log segments need descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(
    config: BrokerConfig, manager: ServiceManager, new_broker: Callable[[BrokerConfig], Broker], *, quiet: bool
) -> None:
    gc.set_threshold(*_GC_THRESHOLDS)
    broker = new_broker(config)

    def stop() -> None:
        manager.stopping()
        broker.stop()

    _on_stop_signals(stop)
    manager.status("loading the logs")
    watchdog = asyncio.create_task(manager.run_watchdog())

    def ready(broker: Broker) -> None:
        gc.freeze()  # modules, tables, settings and logs are permanent: the collector can skip them
        if not quiet:
            with contextlib.suppress(OSError):  # the terminal is closed, or nobody reads the pipe: the broker serves
                _say_ready(broker)
        manager.ready(f"broker {config.broker_id} serves {broker.bootstrap_servers}")

    try:
        await broker.run(ready)
    finally:
        manager.stopping()  # also if a service of the broker has failed
        watchdog.cancel()
    logger.info("stopped cleanly")


def _on_stop_signals(stop: Callable[[], None]) -> None:
    """Call `stop` on SIGTERM, Ctrl-C, and SIGHUP (the terminal was closed) unless that is ignored (nohup)."""
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop)


def _say_ready(broker: Broker) -> None:
    """Print the listeners, the data directories, the console's URL, and, as text, three commands to try."""
    config = broker.config
    listening = [str(broker.advertised(listener)) for listener in config.listeners]
    if config.ottla_log_format == JSON:
        url = None if broker.console is None else broker.console.url
        facts = {"listening": listening, "data": [str(path) for path in config.log_dirs], "console": url}
        print(json_line(logger.name, READY, facts, time.time()), flush=True)
        return
    lines = ["", READY]
    lines += [f"  listening   {address}" for address in listening]
    lines.append(f"  data        {', '.join(str(path) for path in config.log_dirs)}")
    if broker.console is not None:
        lines.append(f"  console     {broker.console.url}")
    lines += ["", TRY]
    lines += [f"  {command}" for command in broker.first_commands]
    lines.append("")
    print("\n".join(lines), flush=True)


def _first_leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
