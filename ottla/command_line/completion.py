"""What a shell completes: topics, groups, broker ids, settings and profiles.

The functions have the signature of Typer's `autocompletion`. Those that ask the cluster get no answer in time, or an
error, as an empty answer: a completion prints nothing else, waits for at most a second and changes nothing.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from ottla.command_line import variables

# The functions import modules of the client and the broker: `ottla --help` imports this module, and must not wait for
# them.
if TYPE_CHECKING:
    from ottla.command_line.clients import Admin
    from storage.setting import Setting

Completions = Iterable[str | tuple[str, str]]
"""Values, or pairs of a value and its description."""


# ---- of the cluster


def complete_topics(context: typer.Context, incomplete: str) -> Completions:
    """Return the topics; internal ones only after "_"."""

    async def names(admin: "Admin") -> list[str]:
        return await admin.list_topics(include_internal=incomplete.startswith("_"))

    return _ask(context, names)


def complete_partitions(context: typer.Context, incomplete: str) -> Completions:
    """Return the partitions, such as orders-0; those of internal topics only after "_"."""

    async def names(admin: "Admin") -> list[str]:
        topics = (await admin.describe_topics()).values()
        shown = [one for one in topics if not one.is_internal or incomplete.startswith("_")]
        return [f"{one.name}-{number}" for one in shown for number in one.partitions]

    return _ask(context, names)


def complete_groups(context: typer.Context) -> Completions:
    """Return the groups, with their states."""

    async def names(admin: "Admin") -> list[tuple[str, str]]:
        return [(one.group_id, one.state) for one in await admin.list_groups()]

    return _ask(context, names)


def complete_brokers(context: typer.Context) -> Completions:
    """Return the ids of the brokers, with their addresses."""

    async def ids(admin: "Admin") -> list[tuple[str, str]]:
        brokers = (await admin.describe_cluster()).brokers
        return [(str(one.node_id), f"{one.host}:{one.port}") for one in brokers]

    return _ask(context, ids)


def complete_transactional_ids(context: typer.Context) -> Completions:
    """Return the transactional ids, with the states of their transactions."""

    async def ids(admin: "Admin") -> list[tuple[str, str]]:
        return [(one.transactional_id, one.state) for one in await admin.list_transactions()]

    return _ask(context, ids)


def _ask(context: typer.Context, question: Callable[["Admin"], Awaitable[list[Any]]]) -> list[Any]:
    """Return the answer of the cluster that the command line selects; empty if there is none in time.

    It is empty, too, if the command would not run because its profile cannot be used: the default is another cluster.
    """
    from ottla.command_line.global_options import are_settings_used
    from ottla.command_line.quick_question import ask

    if not are_settings_used(context):
        return []
    try:
        return ask(context.params["bootstrap_server"], question)
    except Exception:  # whatever it is, the shell has nothing to complete
        return []


# ---- of this machine


def complete_commands(context: typer.Context) -> Completions:
    """Return the commands that `ottla help` takes after the names that it has."""
    from ottla.app import COMMANDS, load_command

    names = context.params.get("names") or []
    if not names:
        return list(COMMANDS.items())
    commands = getattr(load_command(names[0]), "commands", {}) if len(names) == 1 and names[0] in COMMANDS else {}
    return list(commands)


def complete_servers() -> Completions:
    """Return the bootstrap servers of the environment and of the profiles, and the default."""
    from ottla.command_line.failure import CommandError
    from ottla.command_line.profiles import read

    found = {os.environ.get(variables.BOOTSTRAP_SERVER, ""): variables.BOOTSTRAP_SERVER}
    try:
        file = read()
        for name in file.tables:
            found.setdefault(file.profile(name).bootstrap_servers or "", f"profile {name}")
    except CommandError:  # the user sees it when the command runs
        pass
    found.setdefault("127.0.0.1:9092", "the default")
    return [(servers, where) for servers, where in found.items() if servers]


def complete_profiles() -> Completions:
    """Return the names of the profiles."""
    from ottla.command_line.failure import CommandError
    from ottla.command_line.profiles import read

    try:
        return list(read().tables)
    except CommandError:
        return []


def complete_client_settings(incomplete: str) -> Completions:
    """Return the settings of profiles as "name="; after "=" of one that is true or false, these."""
    from ottla.command_line.client_settings import SERVERS, names

    choices = {name: ("true", "false") if bool in types else () for name, types in names().items() if name != SERVERS}
    return _pairs(choices, incomplete)


def complete_topic_settings(incomplete: str) -> Completions:
    """Return the settings of topics as "name=", and after "=" their values, if these can be listed."""
    return _pairs(_choices(_topic_settings()), incomplete)


def complete_topic_setting_names() -> Completions:
    """Return the names of the settings of topics."""
    return list(_topic_settings())


def complete_broker_settings(incomplete: str) -> Completions:
    """Return the settings of brokers as "name=", and after "=" their values, if these can be listed."""
    return _pairs(_choices(_broker_settings()), incomplete)


def complete_setting_names(context: typer.Context) -> Completions:
    """Return the settings of topics after --topic, loggers after --broker-logger, and else the settings of brokers."""
    return _loggers(context) or list(_settings(context))


def complete_dynamic_setting_names(context: typer.Context) -> Completions:
    """Return the same, of those that can be changed at runtime."""
    return _loggers(context) or list(_changeable(_settings(context)))


def complete_dynamic_settings(context: typer.Context, incomplete: str) -> Completions:
    """Return the same as "name=", and after "=" their values, if these can be listed."""
    from broker.log_levels import LEVELS

    levels = dict.fromkeys(_loggers(context), tuple(LEVELS))
    return _pairs(levels or _choices(_changeable(_settings(context))), incomplete)


def _loggers(context: typer.Context) -> list[str]:
    """Return the loggers of the broker of --broker-logger; empty without this option."""
    from client.admin.types import ResourceType

    broker = context.params.get("broker_logger")

    async def names(admin: "Admin") -> list[str]:
        return list(await admin.describe_configs(ResourceType.BROKER_LOGGER, str(broker)))

    return [] if broker is None else _ask(context, names)


def _topic_settings() -> Mapping[str, "Setting"]:
    from storage.log.config import TOPIC_SETTINGS

    return TOPIC_SETTINGS


def _broker_settings() -> Mapping[str, "Setting"]:
    from broker.settings.catalog import BROKER_SETTINGS

    return BROKER_SETTINGS


def _settings(context: typer.Context) -> Mapping[str, "Setting"]:
    return _broker_settings() if context.params.get("topic") is None else _topic_settings()


def _changeable(settings: Mapping[str, "Setting"]) -> dict[str, "Setting"]:
    from storage.setting import READ_ONLY

    return {name: setting for name, setting in settings.items() if setting.update_mode != READ_ONLY}


def _choices(settings: Mapping[str, "Setting"]) -> dict[str, tuple[str, ...]]:
    """Return the valid values of each setting; empty if they cannot be listed."""
    from storage.setting import BOOLEAN

    return {
        name: ("true", "false") if one.type is BOOLEAN else tuple(getattr(one.validator, "choices", ()))
        for name, one in settings.items()
    }


def _pairs(choices: Mapping[str, Iterable[str]], incomplete: str) -> list[str]:
    name, equals, _ = incomplete.partition("=")
    return [f"{name}={value}" for value in choices.get(name, ())] if equals else [f"{one}=" for one in choices]
