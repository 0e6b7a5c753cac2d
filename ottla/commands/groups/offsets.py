"""`ottla groups delete-offsets`, `import-zookeeper` and `export-zookeeper`: change a group's offsets.

Except `delete-offsets`, the commands only show the changes; with `--execute` they make them.
"""

from pathlib import Path
from typing import Annotated

import typer

from client.errors import GroupNotEmptyError, GroupSubscribedToTopicError, KafkaError
from ottla.command_line.clients import Admin
from ottla.command_line.completion import complete_groups
from ottla.command_line.failure import CommandError
from ottla.command_line.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    AsJson,
    BootstrapServer,
    check_layout,
    parse_topics,
)
from ottla.command_line.registry_session import DEFAULT_ZOOKEEPER, Address, ZooKeeperConfig, opened
from ottla.command_line.session import run, unknown_group
from ottla.commands.groups.selection import Topics
from ottla.group_offsets.legacy07_import import LegacyImport
from ottla.group_offsets.offset_plan import OffsetPlan
from ottla.group_offsets.plan_output import Execute, Export, print_plan, say_outcome
from ottla.group_offsets.zookeeper_export import plan_export
from ottla.group_offsets.zookeeper_offsets import read_zookeeper_offsets
from registry.znodes.tree import LEGACY_07

Group = Annotated[str, typer.Argument(help="The group.", metavar="GROUP", autocompletion=complete_groups)]
Layout = Annotated[
    str, typer.Option("--layout", metavar="LAYOUT", help="Layout in ZooKeeper: today (Kafka 0.8 and later), or 0.7.")
]


def register(groups: typer.Typer) -> None:
    """Add the commands."""
    groups.command("delete-offsets", epilog="Example:  ottla groups delete-offsets billing --topic orders:0,1")(
        delete_offsets
    )
    groups.command(
        "import-zookeeper", epilog="Example:  ottla groups import-zookeeper --zookeeper localhost:2181/kafka --execute"
    )(import_zookeeper)
    groups.command(
        "export-zookeeper",
        epilog="Example:  ottla groups export-zookeeper billing --zookeeper localhost:2181/kafka --execute",
    )(export_zookeeper)


def delete_offsets(
    name: Group,
    topic: Topics = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Delete the committed offsets of a group for topics that no member is subscribed to. This cannot be undone."""
    if not topic:
        raise CommandError("give the topics with --topic")
    scope = parse_topics(topic, "--topic")

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            try:
                await admin.describe_group(name)
                committed = await admin.list_group_offsets(name)
                to_delete = []
                for one, numbers in scope.items():
                    mine = [
                        part for part in committed if part.topic == one and part.partition in (numbers or [part[1]])
                    ]
                    if not mine:
                        raise CommandError(f"group {name} has no committed offsets for {_label(one, numbers)}")
                    to_delete += mine
                outcomes = await admin.delete_group_offsets(name, to_delete)
            except GroupNotEmptyError:
                raise CommandError(f"group {name} has members: stop them first") from None
            except KafkaError as refusal:
                raise await unknown_group(admin, name, refusal) from None
        for partition, error in outcomes.items():
            if error is None:
                print(f"{partition} deleted")
        for partition, error in outcomes.items():
            if isinstance(error, GroupSubscribedToTopicError):
                raise CommandError(f"group {name} has members that are subscribed to {partition.topic}")
            if error is not None:
                raise error

    run(main())


def _label(topic: str, numbers: list[int] | None) -> str:
    return topic if numbers is None else f"{topic}:{','.join(map(str, numbers))}"


def import_zookeeper(
    names: Annotated[list[str] | None, typer.Argument(help="Groups. Default: all.", metavar="GROUP")] = None,
    zookeeper: Address = DEFAULT_ZOOKEEPER,
    zookeeper_config: ZooKeeperConfig = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also replace offsets that the group has committed to the cluster.")
    ] = False,
    layout: Layout = "today",
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="TOPIC:BROKER-N=P", help="0.7: the partition P for broker-partition BROKER-N. Repeatable."
        ),
    ] = None,
    positions: Annotated[
        Path | None,
        typer.Option("--positions", metavar="FILE", help="0.7: lines of topic,broker-partition,position,offset."),
    ] = None,
    positions_are_offsets: Annotated[
        bool, typer.Option("--positions-are-offsets", help="0.7: the offset of each record is its position.")
    ] = False,
    execute: Execute = False,
    export: Export = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Copy the offsets of groups from ZooKeeper to the cluster. Without --execute it only shows the changes.

    The offsets are not changed. Offsets that the group has committed to the cluster stay, unless --overwrite is given.

    Offsets of Kafka 0.7 are positions in bytes: they can be used only if the log was migrated and the new offsets of
    its records are known.
    """
    if export and as_json:
        raise CommandError("--export and --json cannot be used together")
    legacy = _legacy_import(layout, mapping, positions, positions_are_offsets)

    async def main() -> None:
        plan = OffsetPlan()
        async with opened(zookeeper, config=zookeeper_config) as registry:
            if legacy is None:
                found = await read_zookeeper_offsets(registry, names or ())
            else:
                found = await legacy.read(registry, names or (), plan.notes, as_json=as_json, execute=execute)
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            await plan.require_inactive(admin, list(found))
            known = await admin.describe_topics()
            if legacy is not None:
                legacy.note_counts(known, plan.notes)
            for group, offsets in found.items():
                committed = await admin.list_group_offsets(group)
                wanted = plan.only_in_cluster(group, offsets, known, {} if overwrite else committed)
                plan.add(group, committed, wanted if legacy is None else await plan.only_in_log(admin, group, wanted))
            if execute:
                await plan.carry_out(admin)
        print_plan(plan, as_json=as_json, export=export, with_group=True)
        say_outcome(plan, execute=execute)

    run(main())


def export_zookeeper(
    names: Annotated[
        list[str], typer.Argument(help="Groups without members.", metavar="GROUP", autocompletion=complete_groups)
    ],
    zookeeper: Address = DEFAULT_ZOOKEEPER,
    zookeeper_config: ZooKeeperConfig = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also replace offsets that the group has in ZooKeeper.")
    ] = False,
    layout: Layout = "today",
    execute: Execute = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Copy the committed offsets of groups to ZooKeeper. Without --execute it only shows the changes.

    Consumers whose group is in ZooKeeper read them (ZooKeeperConsumer). With --layout 0.7 give the chroot of the view
    that brokers publish (ottla.zookeeper.legacy07.chroot); the offsets are stored by broker and partition.
    """
    check_layout(layout)

    async def main() -> None:
        plan = OffsetPlan()
        async with (
            opened(zookeeper, config=zookeeper_config) as registry,
            Admin(bootstrap_servers=bootstrap_server) as admin,
        ):
            await plan.require_inactive(admin, names)
            carry_out = await plan_export(registry, admin, plan, names, layout=layout, overwrite=overwrite)
            if execute:
                await carry_out()
        print_plan(plan, as_json=as_json, export=False, with_group=True)
        say_outcome(plan, execute=execute)

    run(main())


def _legacy_import(
    layout: str, mapping: list[str] | None, positions: Path | None, positions_are_offsets: bool
) -> LegacyImport | None:
    """Return how to import from the layout of 0.7; None for today's layout. Raises CommandError."""
    check_layout(layout)
    if layout != LEGACY_07:
        if mapping or positions is not None or positions_are_offsets:
            raise CommandError("--map, --positions and --positions-are-offsets need --layout 0.7")
        return None
    if positions is not None and positions_are_offsets:
        raise CommandError("give one of --positions and --positions-are-offsets")
    return LegacyImport(mapping or (), positions, positions_are_offsets=positions_are_offsets)
