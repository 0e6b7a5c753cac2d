"""`ottla profile`: named clusters with client settings."""

import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ottla.command_line import client_settings, profiles, variables
from ottla.command_line.client_settings import SERVERS, Value
from ottla.command_line.completion import complete_client_settings, complete_profiles, complete_servers
from ottla.command_line.failure import CommandError
from ottla.command_line.options import AsJson, parse_pairs
from ottla.command_line.output import print_json, print_table
from ottla.command_line.profiles import Profile, ProfileFile
from security.secret import Secret

profile = typer.Typer(help="Profiles: named clusters with client settings.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The name of the profile.", metavar="NAME", autocompletion=complete_profiles)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(profile, name="profile")


@profile.command(
    epilog="Example:  ottla profile create staging -b broker-1:9092,broker-2:9092 --set request.timeout.ms=5000"
)
def create(
    name: Name,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT",
            help="A broker of the cluster; separate several with commas.",
            autocompletion=complete_servers,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="NAME=VALUE",
            help="A client setting, by Kafka's name. Repeatable.",
            autocompletion=complete_client_settings,
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the profile if it exists.")] = False,
) -> None:
    """Write a profile. The first profile becomes the current one."""
    given: dict[str, object] = {**parse_pairs(set_, "--set")}
    if bootstrap_server is not None:
        if SERVERS in given:
            raise CommandError(f"give either --bootstrap-server or --set {SERVERS}, not both")
        given = {SERVERS: bootstrap_server, **given}
    if not given:
        raise CommandError("an empty profile has no use: give --bootstrap-server or --set")
    settings = client_settings.typed(given)
    client_settings.check(settings)
    if profiles.create(name, settings, replace=replace):
        print(f"profile {name} written; it is the current profile")
    else:
        print(f"profile {name} written; `ottla profile use {name}` makes it the current profile")


@profile.command(epilog="Examples:  ottla profile use staging;  ottla profile use --none")
def use(
    name: Annotated[
        str | None, typer.Argument(help="The name of the profile.", metavar="NAME", autocompletion=complete_profiles)
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="No profile is the current one.")] = False,
) -> None:
    """Make a profile the current one: commands use it if no other profile is given."""
    if (name is None) != none:
        raise CommandError("give either the name of a profile or --none")
    profiles.use(name)
    print("no profile is the current one" if name is None else f"{name} is the current profile")
    if given := os.environ.get(variables.PROFILE):
        print(f"in this shell {variables.PROFILE}={given} overrides it")


@profile.command("list", epilog="Example:  ottla profile list --json")
def list_profiles(as_json: AsJson = False) -> None:
    """List the profiles; a star marks the current one."""
    file = profiles.read()
    current = _current(file)
    found = [file.profile(name) for name in file.tables]
    if as_json:
        print_json([_document(one, current) for one in found])
        return
    rows = [
        ("*" if one.name == current else "", one.name, one.bootstrap_servers, len(_others(one.settings)))
        for one in found
    ]
    print_table(("", "profile", "bootstrap servers", "settings"), rows)


@profile.command(epilog="Example:  ottla profile show staging")
def show(
    name: Annotated[
        str | None,
        typer.Argument(
            help="The name of the profile. Default: the current one.",
            metavar="NAME",
            autocompletion=complete_profiles,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the settings of a profile."""
    file = profiles.read()
    current = _current(file)
    wanted = name or current
    if wanted is None:
        raise CommandError(f"there is no current profile in {file.path}; name a profile")
    found = file.profile(wanted)
    if as_json:
        print_json(_document(found, current))
        return
    print(f"{found.name}{'  (current)' if found.name == current else ''}")
    for setting, value in found.settings.items():
        print(f"  {setting}={str(value).lower() if isinstance(value, bool) else value}")


@profile.command(epilog="Example:  ottla profile delete staging")
def delete(name: Name) -> None:
    """Delete a profile."""
    was_current = profiles.delete(name)
    print(f"profile {name} deleted{'; no profile is the current one' if was_current else ''}")


def _current(file: ProfileFile) -> str | None:
    """Return the name of the profile that commands use if no other one is given."""
    return os.environ.get(variables.PROFILE) or file.current


def _document(one: Profile, current: str | None) -> dict[str, Any]:
    return {
        "profile": one.name,
        "current": one.name == current,
        "bootstrap_servers": one.bootstrap_servers,
        "settings": _others(one.settings),
    }


def _others(settings: Mapping[str, Value]) -> dict[str, Value]:
    """Return the settings without the bootstrap servers; a secret as [hidden]."""
    return {
        name: str(value) if isinstance(value, Secret) else value for name, value in settings.items() if name != SERVERS
    }
