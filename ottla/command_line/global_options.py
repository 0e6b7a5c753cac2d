"""Options that stand before or after the command: `ottla -b HOST:PORT topics list`, `ottla topics list -b HOST:PORT`.

A command that connects to a cluster declares `BootstrapServer` only. Its group adds `--profile`, and what was given
before the command, or what the profile has, becomes the default of the command's options. So the first of these counts:

1. the option after the command; nearer to the command before farther
2. the option before the command
3. the profile that `--profile` names
4. OTTLA_BOOTSTRAP_SERVER
5. the profile that OTTLA_PROFILE names, else the current one
6. 127.0.0.1:9092

`--command-config FILE` adds client settings, as with Kafka's tools (command_line.command_config). They replace those of
the environment, and these replace those of the profile.

Other settings of a profile are the defaults of options of their names (`linger.ms`: `--linger-ms`), and reach the
clients through `command_line.clients`.
"""

import copy
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ottla.command_line import variables
from ottla.command_line.completion import complete_profiles, complete_servers

SERVER_ORIGIN: Final[ContextVar[str]] = ContextVar("where the bootstrap servers are from", default="")
"""Where the command has its bootstrap servers from, if the user did not type them; for error messages."""

_SERVER: Final = "--bootstrap-server"
_PROFILE: Final = "--profile"
_COMMAND_CONFIG: Final = "--command-config"
# Keys of `Context.meta`, which the contexts of a command line share.
_GIVEN_SERVER: Final = "ottla bootstrap server"
_GIVEN_PROFILE: Final = "ottla profile"
_GIVEN_COMMAND_CONFIG: Final = "ottla command config"
_COMMAND_CONFIG_WAS_TYPED: Final = "ottla command config was typed"
_CONFIG_IS_KNOWN: Final = "ottla command config is known"
_CHOSEN: Final = "ottla chosen profile"
_PROFILE_WAS_TYPED: Final = "ottla profile was typed"
_SETTINGS_ARE_USED: Final = "ottla settings are used"


def _remember_server(context: typer.Context, value: str | None) -> str | None:
    if value is not None:
        context.meta[_GIVEN_SERVER] = value
    return value


def _remember_profile(context: typer.Context, value: str | None) -> str | None:
    if value is not None:
        context.meta[_GIVEN_PROFILE] = value
        source = context.get_parameter_source("profile")
        context.meta[_PROFILE_WAS_TYPED] = source is not None and source.name == "COMMANDLINE"
    return value


def _remember_command_config(context: typer.Context, value: Path | None) -> Path | None:
    if value is not None:
        context.meta[_GIVEN_COMMAND_CONFIG] = value
        source = context.get_parameter_source("command_config")
        context.meta[_COMMAND_CONFIG_WAS_TYPED] = source is not None and source.name == "COMMANDLINE"
    return value


ServerBefore = Annotated[
    str | None,
    typer.Option(
        _SERVER,
        "-b",
        metavar="HOST:PORT",
        callback=_remember_server,
        autocompletion=complete_servers,
        help="A broker of the cluster. Before or after the command.",
    ),
]
ProfileBefore = Annotated[
    str | None,
    typer.Option(
        _PROFILE,
        metavar="NAME",
        envvar=variables.PROFILE,
        autocompletion=complete_profiles,
        callback=_remember_profile,
        help="A profile of `ottla profile`: bootstrap servers and client settings. Before or after the command.",
    ),
]
CommandConfigBefore = Annotated[
    Path | None,
    typer.Option(
        _COMMAND_CONFIG,
        metavar="FILE",
        envvar=variables.COMMAND_CONFIG,
        exists=True,
        dir_okay=False,
        callback=_remember_command_config,
        help="A properties file with client settings, as for Kafka's tools. Before or after the command.",
    ),
]


def prepare(context: typer.Context, command: Any) -> None:
    """Give the command that runs, or the group that has it, the options that were given before it.

    context: of the group of the command. Raises CommandError if the command does not have an option that was given.
    """
    before = {parameter.name: parameter for parameter in context.find_root().command.params}
    if hasattr(command, "commands"):
        if _has_server_option(command):
            command.params += [_copied(before[name]) for name in ("bootstrap_server", "profile", "command_config")]
        return
    server = next((one for one in command.params if _SERVER in one.opts), None)
    connects = server is not None and server.envvar == variables.BOOTSTRAP_SERVER
    if not context.resilient_parsing:
        _refuse_unknown(context, command, has_server=server is not None, has_profile=connects)
    if server is not None and connects:
        server.callback = _note_origin
        profile = _copied(before["profile"])
        profile.is_eager = True  # before the options whose defaults it sets
        profile.callback = _use_profile
        command_config = _copied(before["command_config"])
        command_config.is_eager = True
        command_config.callback = _use_command_config
        place = command.params.index(server) + 1
        command.params[place:place] = [command_config, profile]
    if server is not None and _GIVEN_SERVER in context.meta:
        server.default, server.required, server.envvar = context.meta[_GIVEN_SERVER], False, None


def _has_server_option(command: Any) -> bool:
    if hasattr(command, "commands"):
        return any(_has_server_option(one) for one in command.commands.values())
    return any(_SERVER in parameter.opts for parameter in command.params)


def _copied(parameter: Any) -> Any:
    """Return a copy of an option of the root for another command, whose function does not get the value."""
    own = copy.copy(parameter)
    own.expose_value = False
    own.envvar = None  # the root has read it
    return own


def _refuse_unknown(context: typer.Context, command: Any, *, has_server: bool, has_profile: bool) -> None:
    given = {
        _SERVER: _GIVEN_SERVER in context.meta,
        _PROFILE: context.meta.get(_PROFILE_WAS_TYPED, False),
        _COMMAND_CONFIG: context.meta.get(_COMMAND_CONFIG_WAS_TYPED, False),
    }
    has = {_SERVER: has_server, _PROFILE: has_profile, _COMMAND_CONFIG: has_profile}
    for option, is_given in given.items():
        if is_given and not has[option]:
            from ottla.command_line.failure import CommandError  # as in _use_profile

            raise CommandError(f"`{context.command_path} {command.name}` has no option {option}")


def _use_profile(context: typer.Context, _: object, value: str | None) -> None:
    """Choose the profile, and use the settings of this command line."""
    context.meta[_PROFILE_WAS_TYPED] = value is not None or context.meta.get(_PROFILE_WAS_TYPED, False)
    context.meta[_CHOSEN] = context.meta.get(_GIVEN_PROFILE) if value is None else value
    if _CONFIG_IS_KNOWN in context.meta:
        _use_settings(context)


def _use_command_config(context: typer.Context, _: object, value: Path | None) -> None:
    """Remember the file, and use the settings if the profile is known: the one that was typed first is processed first.

    One without the other may be incomplete.
    """
    _remember_command_config(context, value)
    context.meta[_CONFIG_IS_KNOWN] = True
    if _CHOSEN in context.meta:
        _use_settings(context)


def _use_settings(context: typer.Context) -> None:
    """Make the settings defaults of the command's options, and those of its clients."""
    # These import the client, which takes 0.1 s: `ottla --help` and commands that do not connect must not wait for it.
    from ottla.command_line import command_config
    from ottla.command_line.clients import CHOSEN_PROFILE
    from ottla.command_line.profiles import choose
    from protocol.classic_names import option_of

    others = command_config.of_environment()
    file = context.meta.get(_GIVEN_COMMAND_CONFIG)
    if file is not None:
        of_file, ignored = command_config.read_file(file)
        others |= of_file
        if not context.resilient_parsing:
            command_config.report(file, ignored)
    profile = choose(context.meta[_CHOSEN], others)
    CHOSEN_PROFILE.set(profile)
    defaults = {option_of(name): value for name, value in profile.settings.items()}
    if _GIVEN_SERVER in context.meta:
        defaults.pop(_SERVER, None)
    for parameter in context.command.params:
        for option in parameter.opts:
            parameter.default = defaults.get(option, parameter.default)
        if _SERVER in parameter.opts and _SERVER in defaults and context.meta[_PROFILE_WAS_TYPED]:
            parameter.envvar = None  # what was typed wins over the environment
    context.meta[_SETTINGS_ARE_USED] = True


def are_settings_used(context: typer.Context) -> bool:
    """Whether the profile and the files were read without an error, which Typer hides while it completes words."""
    return _SETTINGS_ARE_USED in context.meta


def _note_origin(context: typer.Context, _: object, value: str) -> str:
    """Note where the bootstrap servers are from."""
    from ottla.command_line.clients import CHOSEN_PROFILE  # as above

    source = context.get_parameter_source("bootstrap_server")
    profile = CHOSEN_PROFILE.get()
    if source is not None and source.name == "ENVIRONMENT":
        SERVER_ORIGIN.set(variables.BOOTSTRAP_SERVER)
    elif source is not None and source.name == "DEFAULT" and _GIVEN_SERVER not in context.meta:
        SERVER_ORIGIN.set("" if profile.bootstrap_servers is None else f"profile {profile.name}")
    return value
