"""The settings in which the broker processes of one machine differ (`ottla broker --processes N`).

The processes read the same file and the same environment. Process i, counted from 0, gets:

    broker.id     broker.id + i; -1 stays, and each process generates its id
    ports         of `listeners`, `advertised.listeners` and `ottla.console.listener`: plus i times a distance, which is
                  the smallest one with which no two ports are equal: 1, unless the listeners are neighbours. 0 stays.
    log.dirs      the folder process-<i> in each directory
    broker.rack   the same in all processes: the one that is set, or the name of the machine. A partition gets a second
                  replica in a rack only if every rack has one (KIP-36): its replicas share a machine only if there are
                  fewer machines than replicas.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from broker.settings.config import BrokerConfig
from ottla.command_line.failure import CommandError

PREFIX = "process-"
_MAX_PORT = 65535
_OWNER = "meta.properties"
"""The file that each log directory of a broker has."""


def process_settings(config: BrokerConfig, count: int, machine: str) -> list[dict[str, str]]:
    """Return the settings that each process has of its own.

    machine: the name of this machine. Raises CommandError if a port would be above 65535.
    """
    distance = _port_distance(config, count)
    return [_settings(config, index, index * distance, machine) for index in range(count)]


def check_directories(config: BrokerConfig, count: int) -> None:
    """Raise CommandError if a log directory has data that none of the processes would read."""
    for directory in config.log_dirs:
        if (directory / _OWNER).exists():
            raise CommandError(
                f"{directory} has the data of one broker process: --processes needs another directory in log.dirs, in"
                f" which each process has a folder, {PREFIX}0, {PREFIX}1, …"
            )
        for found in sorted(directory.glob(f"{PREFIX}*")):
            number = found.name.removeprefix(PREFIX)
            if number.isdigit() and int(number) >= count and (found / _OWNER).exists():
                raise CommandError(
                    f"{found} has the data of a broker that --processes {count} does not start: move its partitions to"
                    " other brokers with `ottla reassign`, and delete the folder"
                )


def _settings(config: BrokerConfig, index: int, port_offset: int, machine: str) -> dict[str, str]:
    found = {
        "listeners": ",".join(str(one.at(port=_moved(one.port, port_offset))) for one in config.listeners),
        "log.dirs": ",".join(str(directory / f"{PREFIX}{index}") for directory in config.log_dirs),
        "broker.rack": config.broker_rack or machine,
    }
    if config.broker_id >= 0:
        names = ["broker.id", *(["node.id"] if "node.id" in config.static else [])]  # two names of one setting
        found |= dict.fromkeys(names, str(config.broker_id + index))
    if config.values["advertised.listeners"] is not None:
        found["advertised.listeners"] = ",".join(
            str(one.at(port=_moved(one.port, port_offset))) for one in config.advertised_listeners
        )
    if (console := config.ottla_console_listener) is not None:
        scheme = "https://" if config.console_has_tls else ""
        found["ottla.console.listener"] = f"{scheme}{console._replace(port=_moved(console.port, port_offset))}"
    return found


def _moved(port: int, offset: int) -> int:
    return port + offset if port else 0


def _port_distance(config: BrokerConfig, count: int) -> int:
    console = [] if config.ottla_console_listener is None else [config.ottla_console_listener.port]
    own = {one.port for one in config.listeners}.union(console) - {0}
    advertised = {one.port for one in config.advertised_listeners} - {0}
    distance = next(
        distance
        for distance in range(1, _MAX_PORT + 1)
        if _are_distinct(own, distance, count) and _are_distinct(advertised, distance, count)
    )
    highest = max(own | advertised, default=0) + (count - 1) * distance
    if highest > _MAX_PORT:
        raise CommandError(f"--processes {count} needs port {highest}; the highest one is {_MAX_PORT}")
    return distance


def _are_distinct(ports: Iterable[int], distance: int, count: int) -> bool:
    every = [port + index * distance for port in ports for index in range(count)]
    return len(set(every)) == len(every)


def registry_directory(config: BrokerConfig) -> Path:
    """Return the directory of the registry of processes that have no ZooKeeper."""
    return config.log_dirs[0] / "registry"
