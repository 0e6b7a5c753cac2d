"""Values that come from several settings, or from a text with parts.

All functions take the parsed settings of a broker by Kafka's names and raise ConfigError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.settings.catalog import BROKER_SETTINGS
from protocol.host_port import HostPort, unbracketed
from security.addresses import is_address, normal_address
from storage.setting import ConfigError, SettingValue

MS_PER_MINUTE = 60_000
MS_PER_HOUR = 3_600_000

_HOST_NAME = re.compile(r"[0-9A-Za-z._-]+")

Values = Mapping[str, SettingValue]


def times(values: Values) -> dict[str, int]:
    """Return the attributes of BrokerConfig for times that have several units, or default to another setting."""
    found: dict[str, Any] = dict(values)
    retention = found["log.retention.ms"]
    if retention is None:
        minutes = found["log.retention.minutes"]
        retention = found["log.retention.hours"] * MS_PER_HOUR if minutes is None else minutes * MS_PER_MINUTE
    roll, jitter = found["log.roll.ms"], found["log.roll.jitter.ms"]
    flush = found["log.flush.interval.ms"]
    derived = {
        "log_retention_ms": -1 if retention < 0 else retention,
        "log_roll_ms": found["log.roll.hours"] * MS_PER_HOUR if roll is None else roll,
        "log_roll_jitter_ms": found["log.roll.jitter.hours"] * MS_PER_HOUR if jitter is None else jitter,
        "log_flush_interval_ms": found["log.flush.scheduler.interval.ms"] if flush is None else flush,
    }
    limit = BROKER_SETTINGS["log.message.timestamp.difference.max.ms"].default
    for side in ("before", "after"):
        if found[f"log.message.timestamp.{side}.max.ms"] == limit:
            derived[f"log_message_timestamp_{side}_max_ms"] = found["log.message.timestamp.difference.max.ms"]
    return derived


def log_directories(values: Values) -> tuple[Path, ...]:
    """Return the directories of log.dirs, or of log.dir."""
    name = "log.dir" if values["log.dirs"] is None else "log.dirs"
    text = str(values[name])
    directories = tuple(Path(part.strip()) for part in text.split(",") if part.strip())
    if not directories:
        raise ConfigError(name, text, "must name at least one directory")
    if len(set(directories)) < len(directories):
        raise ConfigError(name, text, "must not name a directory twice")
    return directories


def connections_per_ip(values: Values) -> dict[str, int]:
    """Return the limits of max.connections.per.ip.overrides by address, or by the name of a host."""
    setting = BROKER_SETTINGS["max.connections.per.ip.overrides"]
    text = str(values[setting.name])
    limits: dict[str, int] = {}
    for element in filter(None, (part.strip() for part in text.split(","))):
        host, _, limit = element.rpartition(":")
        if not host or not limit.strip().isdigit():
            raise setting.error(text, f"{element} must be address:limit")
        host = unbracketed(host.strip())
        if not is_address(host) and not _HOST_NAME.fullmatch(host):
            raise setting.error(text, f"{host} must be an IP address or the name of a host")
        limits[normal_address(host)] = int(limit)
    return limits


def console_address(values: Values) -> tuple[HostPort | None, bool]:
    """Return the address of ottla.console.listener, None for no console, and whether it has TLS."""
    setting = BROKER_SETTINGS["ottla.console.listener"]
    text = str(values[setting.name])
    if not text:
        return None, False
    scheme, separator, address = text.rpartition("://")
    host, colon, port = address.rpartition(":")
    is_known = scheme.lower() in ("http", "https") if separator else not scheme
    if not (is_known and colon and port.isdecimal() and port.isascii() and int(port) <= 65535):
        rule = "must be host:port, http://host:port or https://host:port with a port of at most 65535, or empty"
        raise setting.error(text, rule)
    return HostPort(unbracketed(host), int(port)), scheme.lower() == "https"
