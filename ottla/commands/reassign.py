"""`ottla reassign`: move partitions to other brokers and log directories, show the progress, cancel moves."""

import asyncio
import random
import sys
import time
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Annotated, Any

import typer

from broker.controller.assignment import assign_replicas
from client.admin.types import Replica
from client.errors import KafkaError
from client.topic_partition import TopicPartition
from ottla.command_line.clients import Admin
from ottla.command_line.completion import complete_topics
from ottla.command_line.failure import CommandError
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, parse_size
from ottla.command_line.output import counted, print_json, print_table
from ottla.command_line.session import check_partition, describe_topics, run, say
from ottla.reassignment.assignment_file import format_assignment, read_assignment
from ottla.reassignment.log_dir_places import Place, find_places, move, prefer
from ottla.reassignment.replication_throttle import clear_throttle, set_log_dir_throttle, set_throttle

reassign = typer.Typer(
    help="Move partitions to other brokers and log directories, show the progress, cancel moves.", no_args_is_help=True
)

POLL_S = 0.5
METADATA_LAG_S = 3.0
"""A broker's metadata may show a completed move later than the controller's list of reassignments."""

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help='JSON like that of `plan`: {"version":1,"partitions":[{"topic":…,"partition":…,"replicas":[…],"log_dirs":'
        '[…]}]}; a log directory is an absolute path on the broker, or "any". "-" is standard input.',
    ),
]
Throttle = Annotated[
    str | None,
    typer.Option(
        "--throttle", metavar="SIZE", help="Limit for moved replicas, in bytes per second and broker, such as 10m."
    ),
]
LogDirThrottle = Annotated[
    str | None,
    typer.Option(
        "--replica-alter-log-dirs-throttle",
        metavar="SIZE",
        help="Limit for moves between log directories, in bytes per second and broker, such as 10m.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(reassign, name="reassign")


@reassign.command(epilog="Example:  ottla reassign plan orders --brokers 1,2,3 > plan.json")
def plan(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC", help="The topics to reassign.", autocompletion=complete_topics)
    ],
    brokers: Annotated[
        str | None, typer.Option("--brokers", metavar="ID,...", help="The brokers to use. Default: all live brokers.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", "-r", min=1, help="Default: each topic's current one.")
    ] = None,
    ignore_racks: Annotated[bool, typer.Option("--ignore-racks", help="Do not use the brokers' racks.")] = False,
    current: Annotated[bool, typer.Option("--current", help="Print the current assignment.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Print an assignment that distributes topics evenly over brokers and racks. Nothing is changed."""
    wanted = _broker_ids(brokers)

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = await describe_topics(admin, topics)
            alive = {broker.node_id: broker.rack for broker in (await admin.describe_cluster()).brokers}
        racks = {broker: None if ignore_racks else rack for broker, rack in alive.items()}
        if wanted is not None:
            missing = [broker for broker in wanted if broker not in racks]
            if missing:
                raise CommandError(f"--brokers {missing[0]}: the cluster has no such live broker")
            racks = {broker: racks[broker] for broker in wanted}
        assignment: dict[TopicPartition, Sequence[int]] = {}
        for name, topic in found.items():
            now = {number: partition.replicas for number, partition in topic.partitions.items()}
            after = now if current else _spread(name, now, racks, replication_factor)
            assignment |= _of_topic(name, after)
        sys.stdout.write(format_assignment(assignment))

    run(main())


def _broker_ids(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return sorted({int(one) for one in text.split(",")})
    except ValueError:
        raise CommandError(f"--brokers {text!r} must be broker ids separated by commas") from None


def _spread(
    topic: str, now: Mapping[int, Sequence[int]], racks: Mapping[int, str | None], replication_factor: int | None
) -> Mapping[int, Sequence[int]]:
    count = replication_factor or max(map(len, now.values()))
    if count > len(racks):
        raise CommandError(f"{topic}: {count} replicas need {count} brokers, and only {len(racks)} are available")
    return assign_replicas(racks, len(now), count, rng=random.Random())


def _of_topic(topic: str, replicas: Mapping[int, Sequence[int]]) -> dict[TopicPartition, Sequence[int]]:
    return {TopicPartition(topic, number): of for number, of in replicas.items()}


@reassign.command(epilog="Example:  ottla reassign start plan.json --throttle 10m --save-current before.json")
def start(
    file: File,
    throttle: Throttle = None,
    log_dir_throttle: LogDirThrottle = None,
    save_current: Annotated[
        Path | None,
        typer.Option(
            "--save-current", metavar="FILE", help="First write the current assignment to this file, to undo the move."
        ),
    ] = None,
    additional: Annotated[
        bool, typer.Option("--additional", help="Start even if other partitions are being moved.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="How long to wait for the new replicas whose log directories the file names.",
        ),
    ] = 10.0,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Start to move partitions to the replicas, and replicas to the log directories, that a file names.

    `status` shows the progress. A throttle limits the bandwidth until `status` finds that all moves are completed.
    """
    rate = None if throttle is None else parse_size(throttle, "--throttle")
    log_dir_rate = (
        None if log_dir_throttle is None else parse_size(log_dir_throttle, "--replica-alter-log-dirs-throttle")
    )

    async def main() -> None:
        targets, log_dirs = read_assignment(file)
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            before = await _replicas(admin, targets, file)
            await _check(admin, targets, file, additional=additional)
            if save_current is not None:
                places = await find_places(admin, {replica.broker_id for replica in log_dirs})
                now = {one: place.log_dir for one, place in places.items() if one in log_dirs and place.log_dir}
                save_current.write_text(format_assignment(before, now))
            if rate is not None:
                await set_throttle(admin, before, targets, rate)
            if log_dir_rate is not None:
                await set_log_dir_throttle(admin, (replica.broker_id for replica in log_dirs), log_dir_rate)
            coming = {one: path for one, path in log_dirs.items() if one.broker_id not in before[_partition_of(one)]}
            await prefer(admin, coming)  # so that the new replicas need no second move
            _raise_refusals(await admin.alter_partition_reassignments(targets))
            await move(admin, log_dirs, timeout)
        say(f"moving {counted(len(targets), 'partition')}")

    run(main())


async def _check(
    admin: Admin, targets: Mapping[TopicPartition, Sequence[int]], file: Path, *, additional: bool
) -> None:
    """Raise CommandError if a target broker is not alive, or if other partitions are being moved."""
    alive = {broker.node_id for broker in (await admin.describe_cluster()).brokers}
    for partition, replicas in targets.items():
        missing = [broker for broker in replicas if broker not in alive]
        if missing:
            raise CommandError(f"{file}: {partition}: the cluster has no live broker {missing[0]}")
    others = await admin.list_partition_reassignments()
    if others and not additional:
        raise CommandError(f"{', '.join(map(str, others))} are being moved; use --additional to start more moves")


def _partition_of(replica: Replica) -> TopicPartition:
    return TopicPartition(replica.topic, replica.partition)


@reassign.command(epilog="Example:  ottla reassign status plan.json --wait")
def status(
    file: File,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all moves of the file are completed.")] = False,
    keep_throttle: Annotated[bool, typer.Option("--keep-throttle", help="Do not remove the bandwidth limits.")] = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show the progress of the moves of a file; if all are completed, remove the bandwidth limits.

    The exit code is 0 if every partition has the replicas that the file names, in the log directories that it names.
    """

    async def main() -> None:
        targets, log_dirs = read_assignment(file)
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            while True:
                moving = await admin.list_partition_reassignments()
                places = await _places(admin, log_dirs)
                is_moving = bool(moving.keys() & targets.keys()) or any(place.future for place in places.values())
                if not wait or not is_moving:
                    break
                await asyncio.sleep(POLL_S)
            now = await _replicas_after(admin, targets, set(moving), file)
            if not moving and not is_moving and not keep_throttle:
                brokers = [broker.node_id for broker in (await admin.describe_cluster()).brokers]
                await clear_throttle(admin, {partition.topic for partition in targets}, brokers)
        rows = []
        for partition, target in targets.items():
            settled = "done" if list(now[partition]) == target else "elsewhere"
            state = "on its way" if partition in moving else settled
            rows.append((partition, state, now[partition], target))
        of_dirs = [(one, places[one].state(target), places[one], target) for one, target in log_dirs.items()]
        _print_status(rows, of_dirs, as_json=as_json)
        undone = sum(row[1] != "done" for row in rows)
        if undone:
            raise CommandError(f"{undone} of {len(rows)} partitions do not have their target")
        undone = sum(row[1] != "done" for row in of_dirs)
        if undone:
            raise CommandError(f"{undone} of {len(of_dirs)} replicas are not in their log directory")

    run(main())


async def _places(admin: Admin, log_dirs: Mapping[Replica, str]) -> dict[Replica, Place]:
    if not log_dirs:
        return {}
    found = await find_places(admin, {replica.broker_id for replica in log_dirs})
    return {replica: found.get(replica, Place()) for replica in log_dirs}


def _print_status(
    rows: Sequence[tuple[TopicPartition, str, Sequence[int], Sequence[int]]],
    of_dirs: Sequence[tuple[Replica, str, Place, str]],
    *,
    as_json: bool,
) -> None:
    """Print the partitions and their replicas, and the replicas' log directories if the plan names some."""
    if as_json:
        print_json(_status_documents(rows, of_dirs))
        return
    columns = ("partition", "state", "replicas", "target")
    print_table(columns, [(str(one), state, _ids(now), _ids(target)) for one, state, now, target in rows])
    if of_dirs:
        print_table(
            ("replica", "broker", "state", "log directory", "target"),
            [
                (str(_partition_of(one)), str(one.broker_id), state, place.log_dir or "-", target)
                for one, state, place, target in of_dirs
            ],
        )


def _status_documents(
    rows: Sequence[tuple[TopicPartition, str, Sequence[int], Sequence[int]]],
    of_dirs: Sequence[tuple[Replica, str, Place, str]],
) -> list[dict[str, Any]]:
    documents: dict[TopicPartition, dict[str, Any]] = {
        one: {
            **one._asdict(),
            "state": state.replace(" ", "_"),
            "replicas": list(now),
            "target": list(target),
            "log_dirs": [],
        }
        for one, state, now, target in rows
    }
    for one, state, place, target in of_dirs:
        documents[_partition_of(one)]["log_dirs"].append(
            {
                "broker": one.broker_id,
                "state": state.replace(" ", "_"),
                "log_dir": place.log_dir,
                "target": target,
            }
        )
    return list(documents.values())


@reassign.command("list", epilog="Example:  ottla reassign list")
def list_reassignments(as_json: AsJson = False, bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER) -> None:
    """List the partitions that are being moved."""

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            moving = await admin.list_partition_reassignments()
        if as_json:
            print_json([{**partition._asdict(), **move._asdict()} for partition, move in moving.items()])
            return
        columns = ("partition", "replicas", "adding", "removing")
        print_table(columns, [(str(partition), *map(_ids, move)) for partition, move in moving.items()])

    run(main())


@reassign.command(epilog="Example:  ottla reassign cancel --all")
def cancel(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The file of `start`.")] = None,
    all_moves: Annotated[bool, typer.Option("--all", help="Cancel all moves.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Cancel moves: partitions get their previous replicas, and replicas stay in their log directories.

    If no other move is in progress, the bandwidth limits are removed.
    """
    if (file is not None) == all_moves:
        raise CommandError("give either a file or --all")

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            moving = await admin.list_partition_reassignments()
            plan = None if file is None else read_assignment(file)
            named = moving if plan is None else plan.replicas
            wanted = [partition for partition in named if partition in moving]
            if wanted:
                _raise_refusals(await admin.alter_partition_reassignments(dict.fromkeys(wanted)))
            places = await find_places(admin)
            on_their_way = {one: place.log_dir for one, place in places.items() if place.future and place.log_dir}
            staying = {one: path for one, path in on_their_way.items() if plan is None or one in plan.log_dirs}
            await move(admin, staying, 0)
            if (len(wanted), len(staying)) == (len(moving), len(on_their_way)):
                topics = await admin.describe_topics()
                brokers = [broker.node_id for broker in (await admin.describe_cluster()).brokers]
                names = {one.topic for one in named} | {one.topic for one in staying}
                await clear_throttle(admin, names & topics.keys(), brokers)
        say(f"{counted(len(wanted) + len(staying), 'move')} cancelled")

    run(main())


async def _replicas(
    admin: Admin, partitions: Mapping[TopicPartition, object], file: Path
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the current replicas. Raises CommandError if a partition does not exist."""
    known = await admin.describe_topics()
    for partition in partitions:
        check_partition(known, partition, f"{file}: ")
    return {partition: known[partition.topic].partitions[partition.partition].replicas for partition in partitions}


async def _replicas_after(
    admin: Admin, targets: Mapping[TopicPartition, Sequence[int]], moving: Set[TopicPartition], file: Path
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the current replicas, after a wait until the metadata shows the completed moves."""
    deadline = time.monotonic() + METADATA_LAG_S
    while True:
        now = await _replicas(admin, targets, file)
        is_settled = all(key in moving or list(now[key]) == list(target) for key, target in targets.items())
        if is_settled or time.monotonic() > deadline:
            return now
        await asyncio.sleep(POLL_S)


def _raise_refusals(outcomes: Mapping[TopicPartition, KafkaError | None]) -> None:
    """Raise CommandError with the errors of all refused moves; the other moves have started."""
    refused = [str(error) for error in outcomes.values() if error is not None]
    if refused:
        raise CommandError("; ".join(refused))


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "-"
