"""Settings that Kafka does not have: the `ottla.*` names."""

from __future__ import annotations

from storage.setting import MEDIUM, READ_ONLY, STRING, OneOf, Setting, table

# fmt: off
OTTLA_SETTINGS: dict[str, Setting] = table((
    Setting("ottla.console.listener", STRING, "127.0.0.1:8080", None,
            MEDIUM, READ_ONLY, acts=True,
            doc="Address of health, metrics and the console as host:port; empty for none."),
    Setting("ottla.produce.validation", STRING, "headers", OneOf("headers", "full"),
            MEDIUM, READ_ONLY, acts=True,
            doc="How far batches are checked: header and checksum, or (full) every record, as Kafka does."),
))
# fmt: on
