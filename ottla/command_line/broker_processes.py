"""`ottla broker --processes N`: the broker processes of this machine, under one supervisor, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from broker.first_commands import READY, TRY, first_commands
from broker.log_lines import JSON, json_line
from broker.network.listener import PLAINTEXT
from broker.service_manager import ServiceManager
from broker.settings.config import SINGLE_BROKER_DEFAULTS, BrokerConfig
from broker.settings.environment import data_directory
from ottla.cluster.broker_child import BrokerChild, bootstrap_servers
from ottla.cluster.foreground import run_in_foreground
from ottla.cluster.json_output import JsonOutput
from ottla.cluster.local_registry import KIND, LocalRegistry
from ottla.cluster.ports import HOST, free_ports
from ottla.cluster.process_output import ProcessOutput
from ottla.cluster.process_settings import PREFIX, check_directories, process_settings, registry_directory
from ottla.cluster.supervisor import Supervisor
from ottla.command_line.running import run


def run_processes(path: Path | None, overrides: Mapping[str, str], count: int) -> int:
    """Run `count` broker processes until a signal, and return the exit code.

    path: the properties file. overrides: the values of `--set`. Raises ConfigError for wrong settings, and CommandError
    for data of another number of processes, or if a process fails at the start.
    """
    manager = ServiceManager(os.environ)
    config = BrokerConfig.load(path, overrides, data_dir=data_directory(), environment=os.environ)
    check_directories(config, count)
    own_settings = process_settings(config, count, socket.gethostname())
    registry, common = None, dict(overrides)
    if not config.zookeeper_connect:
        port = free_ports(1)[0]
        registry = LocalRegistry(registry_directory(config), port=port)
        common["zookeeper.connect"] = f"{HOST}:{port}"
        # This machine is the only one: internal topics with three replicas could not be created.
        common |= {name: text for name, text in SINGLE_BROKER_DEFAULTS.items() if name not in config.static}
    is_json = config.ottla_log_format == JSON
    names = [f"{PREFIX}{index}" for index in range(count)]
    output = JsonOutput() if is_json else ProcessOutput([*names, KIND])
    brokers = [
        BrokerChild(name, _arguments(path, common | own), partial(output.said, name))
        for name, own in zip(names, own_settings, strict=True)
    ]
    supervisor = Supervisor(brokers, registry, output)

    def ready() -> None:
        print(_json_facts(brokers) if is_json else _text(brokers, config, registry), flush=True)
        manager.ready(f"{count} processes serve {bootstrap_servers(brokers)}")

    run(_serve(supervisor, manager, ready))
    return 0


def _arguments(path: Path | None, settings: Mapping[str, str]) -> list[str]:
    words = [] if path is None else [str(path)]
    return words + [word for name, text in settings.items() for word in ("--set", f"{name}={text}")]


async def _serve(supervisor: Supervisor, manager: ServiceManager, ready: Callable[[], None]) -> None:
    manager.status("starting the processes")
    watchdog = asyncio.create_task(manager.run_watchdog())
    try:
        await run_in_foreground(supervisor, ready, manager.stopping)
    finally:
        manager.stopping()  # also if a process has failed at the start
        watchdog.cancel()


def _text(brokers: Sequence[BrokerChild], config: BrokerConfig, registry: LocalRegistry | None) -> str:
    lines = ["", f"{READY} {len(brokers)} processes:"]
    lines += [f"  {broker.name:<11} {broker.summary}" for broker in brokers]
    lines.append(f"  {'bootstrap':<11} {bootstrap_servers(brokers)}")
    if registry is not None:
        lines.append(f"  {KIND:<11} {registry.connect}  one node  pid {registry.servers[0].pid}")
    lines.append(f"  {'data':<11} {', '.join(map(str, config.log_dirs))}")
    first = config.advertised_listeners[0]
    lines += ["", TRY]
    servers = bootstrap_servers(brokers[:1])
    lines += [f"  {command}" for command in first_commands(servers, has_security=first.security_protocol != PLAINTEXT)]
    return "\n".join([*lines, ""])


def _json_facts(brokers: Sequence[BrokerChild]) -> str:
    processes = [{"process": broker.name, "pid": broker.pid, **broker.facts} for broker in brokers]
    return json_line(__name__, READY, {"processes": processes}, time.time())
