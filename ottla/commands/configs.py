"""`ottla configs`: the settings of topics and brokers."""

from collections.abc import Iterable
from typing import Annotated

import typer

from client.admin.types import ConfigChange, ConfigEntry, ConfigOperation, ConfigSource, ResourceType
from ottla.command_line.clients import Admin
from ottla.command_line.completion import (
    complete_brokers,
    complete_dynamic_setting_names,
    complete_dynamic_settings,
    complete_setting_names,
    complete_topics,
)
from ottla.command_line.failure import CommandError
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, parse_pairs
from ottla.command_line.output import print_json, print_table
from ottla.command_line.session import describe_topics, run
from protocol.classic_names import Reader, advice

configs = typer.Typer(help="Show and change the settings of topics and brokers.", no_args_is_help=True)

Topic = Annotated[
    str | None, typer.Option("--topic", "-t", help="Settings of this topic.", autocompletion=complete_topics)
]
Broker = Annotated[
    int | None, typer.Option("--broker", help="Settings of the broker with this id.", autocompletion=complete_brokers)
]
BrokerLogger = Annotated[
    int | None,
    typer.Option(
        "--broker-logger", metavar="ID", help="Log levels of the broker with this id.", autocompletion=complete_brokers
    ),
]
BrokerDefault = Annotated[bool, typer.Option("--broker-default", help="Dynamic defaults of all brokers.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(configs, name="configs")


@configs.command(epilog="Example:  ottla configs describe --topic orders --all")
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Only these settings.", metavar="NAME", autocompletion=complete_setting_names),
    ] = None,
    topic: Topic = None,
    broker: Broker = None,
    broker_default: BrokerDefault = False,
    broker_logger: BrokerLogger = None,
    show_all: Annotated[bool, typer.Option("--all", "-a", help="Also settings with their default.")] = False,
    synonyms: Annotated[
        bool, typer.Option("--synonyms", help="Also the values of lower precedence, and where each comes from.")
    ] = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show the explicitly set settings of a topic or broker, or all settings with --all."""

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            resource, name = await _resource(admin, topic, broker, broker_default, broker_logger)
            found = await admin.describe_configs(resource, name, names, include_synonyms=True)
        missing = [key for key in names or () if key not in found]
        if missing:
            instead = advice(missing[0], Reader.BROKER if topic is None else Reader.TOPIC)
            what = "setting" if broker_logger is None else "logger"
            raise CommandError(f"unknown {what} {missing[0]}" + ("" if instead is None else f": {instead}"))
        shown = [entry for entry in found.values() if show_all or names or not entry.is_default]
        if as_json:
            print_json(
                [
                    {
                        "name": entry.name,
                        "value": entry.value,
                        "source": entry.source.name,
                        "read_only": entry.read_only,
                        "sensitive": entry.is_sensitive,
                        "synonyms": [
                            {"name": key, "value": value, "source": source.name}
                            for key, value, source in entry.synonyms
                        ],
                    }
                    for entry in shown
                ]
            )
            return
        print_table(("name", "value", "source", ""), _rows(shown, with_synonyms=synonyms), long="value")

    run(main())


def _rows(entries: Iterable[ConfigEntry], *, with_synonyms: bool) -> list[tuple[str | None, ...]]:
    """Return a row for each setting; with synonyms, then one for each value that it would have without the others."""
    rows: list[tuple[str | None, ...]] = []
    for entry in entries:
        hidden = entry.is_sensitive and entry.value is None
        value = "(hidden)" if hidden else entry.value
        rows.append((entry.name, value, _label(entry.source), "read-only" if entry.read_only else ""))
        for name, other, source in entry.synonyms if with_synonyms else ():
            if (name, source) != (entry.name, entry.source):
                rows.append((f"  {name}", "(hidden)" if hidden else other, _label(source), ""))
    return rows


def _label(source: ConfigSource) -> str:
    """Return a source such as DYNAMIC_TOPIC_CONFIG in words: dynamic topic."""
    return source.name.removesuffix("_CONFIG").lower().replace("_", " ")


Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", metavar="NAME=VALUE", help="Set this. Repeatable.", autocompletion=complete_dynamic_settings
    ),
]
Delete = Annotated[
    list[str] | None,
    typer.Option(
        "--delete",
        "-d",
        metavar="NAME",
        help="Reset to the default. Repeatable.",
        autocompletion=complete_dynamic_setting_names,
    ),
]
Append = Annotated[
    list[str] | None,
    typer.Option(
        "--append", metavar="NAME=VALUE", help="Add to a list. Repeatable.", autocompletion=complete_dynamic_settings
    ),
]
Subtract = Annotated[
    list[str] | None,
    typer.Option(
        "--subtract",
        metavar="NAME=VALUE",
        help="Remove from a list. Repeatable.",
        autocompletion=complete_dynamic_settings,
    ),
]


@configs.command(epilog="Example:  ottla configs alter --topic orders --set retention.ms=3600000 --delete segment.ms")
def alter(
    topic: Topic = None,
    broker: Broker = None,
    broker_default: BrokerDefault = False,
    broker_logger: BrokerLogger = None,
    set_: Set = None,
    delete: Delete = None,
    append: Append = None,
    subtract: Subtract = None,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check the changes.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Change some settings of a topic or broker; the other settings do not change."""
    given = {"--set": parse_pairs(set_, "--set"), "--append": parse_pairs(append, "--append")}
    given["--subtract"] = parse_pairs(subtract, "--subtract")
    if not any(given.values()) and not delete:
        raise CommandError("nothing to alter: give --set, --delete, --append or --subtract")

    async def main() -> None:
        operations = {
            "--set": ConfigOperation.SET,
            "--append": ConfigOperation.APPEND,
            "--subtract": ConfigOperation.SUBTRACT,
        }
        changes = [
            ConfigChange(name, value, operations[option])
            for option, pairs in given.items()
            for name, value in pairs.items()
        ]
        changes += [ConfigChange(name, None, ConfigOperation.DELETE) for name in delete or ()]
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            resource, name = await _resource(admin, topic, broker, broker_default, broker_logger)
            await admin.incremental_alter_configs(resource, name, changes, validate_only=validate_only)

    run(main())
    print("could be altered" if validate_only else "altered")


async def _resource(
    admin: Admin, topic: str | None, broker: int | None, broker_default: bool, broker_logger: int | None
) -> tuple[ResourceType, str]:
    """Return the type and name of the resource that one of the four options selects. Raises CommandError."""
    if (topic is not None) + (broker is not None) + broker_default + (broker_logger is not None) != 1:
        raise CommandError("give one of --topic, --broker, --broker-default and --broker-logger")
    if broker_logger is not None:
        return ResourceType.BROKER_LOGGER, str(broker_logger)
    if topic is None:
        return ResourceType.BROKER, "" if broker is None else str(broker)
    await describe_topics(admin, [topic])
    return ResourceType.TOPIC, topic
