"""`ottla api-versions`: the APIs that brokers serve, their versions, and those that this client uses (ApiVersions)."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from client.admin.types import ServedApi
from ottla.command_line.clients import Admin
from ottla.command_line.completion import complete_brokers
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from ottla.command_line.output import print_json, print_table
from ottla.command_line.session import live_brokers, run


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("api-versions", epilog="Example:  ottla api-versions --broker 1")(api_versions)


def api_versions(
    broker: Annotated[
        list[int] | None,
        typer.Option("--broker", help="Only this broker. Repeatable.", autocompletion=complete_brokers),
    ] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show the APIs that brokers serve, the range of their versions, and the version that this client uses.

    Brokers that serve the same versions share their columns.
    """

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            brokers = await live_brokers(admin, broker or (), "--broker")
            served = await admin.describe_api_versions(one.node_id for one in brokers)
        if as_json:
            print_json(
                [
                    {
                        "broker": one.node_id,
                        "host": one.host,
                        "port": one.port,
                        "rack": one.rack,
                        "apis": [_document(api) for api in served[one.node_id]],
                    }
                    for one in brokers
                ]
            )
        else:
            _print_versions(served)

    run(main())


def _document(api: ServedApi) -> dict[str, object]:
    return {
        "api_key": api.api_key,
        "api": api.name,
        "min_version": api.lowest,
        "max_version": api.highest,
        "used_version": api.used,
    }


def _print_versions(served: Mapping[int, Sequence[ServedApi]]) -> None:
    alike: dict[tuple[ServedApi, ...], list[int]] = {}
    for broker_id, apis in served.items():
        alike.setdefault(tuple(apis), []).append(broker_id)
    columns = ["key", "api"]
    names: dict[int, str] = {}
    for apis, ids in alike.items():
        columns += [f"broker{'s' * (len(ids) != 1)} {','.join(map(str, ids))}", "used"]
        names |= {api.api_key: api.name for api in apis}
    groups = [{api.api_key: api for api in apis} for apis in alike]
    rows = [(key, names[key], *(cell for group in groups for cell in _cells(group.get(key)))) for key in sorted(names)]
    print_table(columns, rows)


def _cells(api: ServedApi | None) -> tuple[str | None, int | None]:
    if api is None:
        return None, None
    return str(api.lowest) if api.lowest == api.highest else f"{api.lowest} to {api.highest}", api.used
