"""Generate docs/configuration.md from the settings tables (`python -m broker.settings.docs`).

A test compares the file with the output of this module, so that the file stays up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.settings.catalog import BROKER_SETTINGS, KAFKA_SETTINGS
from broker.settings.config import GROUP_DEFAULTS, NO_FILE_DEFAULTS, SINGLE_BROKER_DEFAULTS
from broker.settings.refused import refused_settings
from broker.settings.tables.ottla import OTTLA_SETTINGS
from protocol.classic_names import CLASSIC_NAMES, Reader, advice
from storage.log.config import TOPIC_SETTINGS
from storage.setting import Setting

INTRODUCTION = f"""\
# Configuration

*Generated from the settings tables by `python -m {__package__}.docs`; do not edit.*

Ottla reads Kafka's own `server.properties`: names, types, defaults and rules are those of Apache Kafka 3.9.

```
ottla broker server.properties --set num.partitions=3
```

`--set name=value` overrides the environment, and the environment overrides the file. The file has the
syntax of Java's properties. Every broker setting of Kafka 3.9 is accepted. The broker logs a warning at
its start for each setting that has no effect yet. Invalid values and settings that contradict each other
are refused; the error has the name, the value and the rule. A setting with the prefix
`listener.name.<name>.` applies to one listener: settings of TLS and SASL, and limits of connections
([security.md](security.md)).

An unknown name in a file causes a warning with the file and the name, as in Kafka: a file of another vendor
may have settings of its plugins. An unknown name of `--set` is refused. Names that would hide a mistake are
refused everywhere: unknown `ottla.*` names, names that differ from a setting's in one or two characters, in
case or in separators (`log.retention.hour`, `log_dirs`, also after a listener's prefix), settings of topics, and
[names of the past](#names-of-the-past). The error has the right name.

## Environment variables

`ottla broker` reads settings from environment variables, named as in Kafka's container images: `KAFKA_`
and the name in upper case, with `_` for a dot, `__` for an underscore and `___` for a hyphen.

| Variable | Setting |
|---|---|
| `KAFKA_LOG_RETENTION_HOURS=24` | `log.retention.hours=24` |
| `KAFKA_LISTENERS=PLAINTEXT://:9092` | `listeners=PLAINTEXT://:9092` |
| `OTTLA_CONSOLE_LISTENER=127.0.0.1:8081` | `ottla.console.listener=127.0.0.1:8081` |
| `OTTLA_LOG_DIRS=/data` | `log.dirs=/data`; overrides `KAFKA_LOG_DIRS` |

`OTTLA_NAME` is the setting `ottla.name`, or `name` if there is no such `ottla.*` setting. An empty
variable is an empty value. Because other programs use these prefixes, too, an unknown variable causes a
warning only; one that looks like a typing error, or has a former name of a broker's setting, is refused.
Variables of Kafka's start scripts (`KAFKA_HEAP_OPTS`, `KAFKA_JMX_…`, `KAFKA_LOG4J_…`, …),
Kubernetes' service links (`KAFKA_SERVICE_HOST`, `KAFKA_PORT=tcp://…`) and the variables of the `ottla`
command (`OTTLA_BOOTSTRAP_SERVER`, …) are ignored. Of `KAFKA_OPTS`, only the login to ZooKeeper is read
(`-Djava.security.auth.login.config`). A broker that runs in a Python program (`async with
Broker(config)`) does not read the environment.

A setting can change while the broker runs if its update mode is `cluster-wide` (for this broker or for
all) or `per-broker` (for this broker only): see `ottla configs alter`. Kafka can also change `listeners`,
`advertised.listeners` and `listener.security.protocol.map` while it runs; Ottla refuses these changes.
Passwords can be changed if `password.encoder.secret` is set; the registry stores them encrypted.
"""

REFUSED = """\
## Refused

Settings that promise a safety that Ottla does not have yet are refused: any value of the following settings
except the default and an empty value.
"""

NO_EFFECT = """\
## Without effect yet

These settings are accepted and checked against Kafka's rules; if one is set, the broker logs a warning.
"""


def document() -> Iterator[str]:
    """Yield the lines of docs/configuration.md."""
    yield INTRODUCTION
    yield "## Defaults that differ from Kafka's\n"
    yield "Apache Kafka in ZooKeeper mode does not have the newer group protocol (KIP-848); Ottla does:\n"
    yield from _defaults(GROUP_DEFAULTS)
    yield "\nWithout `zookeeper.connect` the broker has an embedded registry and is the only broker of its cluster:\n"
    yield from _defaults(SINGLE_BROKER_DEFAULTS)
    yield "\nWithout a properties file the broker is reachable only from this machine:\n"
    yield from _defaults(NO_FILE_DEFAULTS)
    yield "| `log.dir` | a directory of the user's own; `ottla broker` prints it | `/tmp/kafka-logs` |"
    yield "\n## Ottla's own settings\n"
    yield from _table(OTTLA_SETTINGS.values())
    yield "\n## Broker settings\n"
    yield from _table(setting for setting in KAFKA_SETTINGS.values() if setting.acts)
    yield "\n## Topic settings\n"
    yield "If a topic does not override a setting, it has the value of the broker setting in the last column.\n"
    yield from _topic_table(setting for setting in TOPIC_SETTINGS.values() if setting.acts)
    idle = ", ".join(f"`{name}`" for name, setting in TOPIC_SETTINGS.items() if not setting.acts)
    yield f"\nWithout effect yet: {idle}."
    yield f"\n{REFUSED}"
    yield from _rows(("Name", "Why"), ((f"`{name}`", why) for name, why in refused_settings(BROKER_SETTINGS)))
    yield f"\n{NO_EFFECT}"
    yield from _table(setting for setting in KAFKA_SETTINGS.values() if not setting.acts)
    yield "\n## Names of the past\n"
    answers = ((name, advice(name, Reader.BROKER)) for name in sorted(CLASSIC_NAMES))
    yield (
        "Names that Kafka no longer has, and names of clients' settings, with what to use instead."
        " Ottla's clients use the same table.\n"
    )
    yield from _rows(("Name", "Instead"), ((f"`{name}`", answer) for name, answer in answers if answer is not None))


def _table(settings: Iterable[Setting]) -> Iterator[str]:
    headings = ("Name", "Type", "Default", "Valid values", "Update mode", "What it is")
    yield from _rows(
        headings,
        (
            (f"`{s.name}`", s.type.name.lower(), _default(s.default_text), _valid(s), s.update_mode, s.doc)
            for s in settings
        ),
    )


def _topic_table(settings: Iterable[Setting]) -> Iterator[str]:
    headings = ("Name", "Type", "Default", "Valid values", "What it is", "Broker setting")
    yield from _rows(
        headings,
        (
            (
                f"`{s.name}`",
                s.type.name.lower(),
                _default(s.default_text),
                _valid(s),
                s.doc,
                ", ".join(f"`{name}`" for name in s.server),
            )
            for s in settings
        ),
    )


def _defaults(defaults: dict[str, str]) -> Iterator[str]:
    yield from _rows(
        ("Name", "Default", "Kafka's"),
        ((f"`{name}`", f"`{text}`", _default(BROKER_SETTINGS[name].default_text)) for name, text in defaults.items()),
    )


def _rows(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _default(text: str | None) -> str:
    if text is None:
        return "not set"
    return f"`{text}`" if text else "empty"


def _valid(setting: Setting) -> str:
    text = "" if setting.validator is None else setting.validator.text
    return text if len(text) < 90 else "a version of Kafka" if "0.8.0" in text else "at least 1, or -1"


def main() -> None:
    """Print the document."""
    print("\n".join(document()))


if __name__ == "__main__":
    main()
