"""`ottla zk`: show the decoded tree of a cluster's ZooKeeper, and change it on request.

With `--log-dir` it uses the embedded registry of a stopped broker: only one process can open the file. With `--layout
0.7` the tree has the layout of Kafka 0.7.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ottla.command_line.failure import CommandError
from ottla.command_line.options import AsJson, check_layout
from ottla.command_line.output import print_json, print_table
from ottla.command_line.registry_session import DEFAULT_ZOOKEEPER, Address, ZooKeeperConfig, opened
from ottla.command_line.session import run, say
from ottla.zookeeper.acl_migration import migrate, missing_roots
from ottla.zookeeper.legacy07_format import legacy_bytes
from ottla.zookeeper.znode_format import ShownZnode, check_content
from registry.errors import InvalidAclError, NoAuthError, NoNodeError, ZnodeFormatError
from registry.interface import Registry
from registry.znodes.tree import LEGACY_07

zk = typer.Typer(help="Show the tree of a cluster's ZooKeeper, and change it.", no_args_is_help=True)

# The value of the option before the command's name.
_layout: ContextVar[str] = ContextVar("layout", default="today")

_TREE_ROW = 120  # characters of a znode's content in a tree

LogDir = Annotated[
    Path | None,
    typer.Option("--log-dir", metavar="DIR", help="The embedded registry in this log directory of a stopped broker."),
]
NodePath = Annotated[str, typer.Argument(help="Path of the znode.", metavar="PATH")]
TopPath = Annotated[str, typer.Argument(help="Path of the znode.", metavar="PATH")]
Write = Annotated[bool, typer.Option("--write", help="Required: a wrong znode can break a cluster.")]
Raw = Annotated[bool, typer.Option("--raw", help="Allow content that Kafka cannot read.")]
PathCheck = Annotated[
    bool,
    typer.Option(
        "--path-check", "--enable.path.check", help="Stop if one of Kafka's paths is missing, as with a wrong chroot."
    ),
]
Version = Annotated[int, typer.Option("--version", help="Only if this is the znode's version; -1: any.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(zk, name="zk")


@zk.callback()
def choose_layout(
    layout: Annotated[
        str, typer.Option("--layout", metavar="LAYOUT", help="Layout of the tree: today (Kafka 0.8 to 3.9), or 0.7.")
    ] = "today",
) -> None:
    """Show the tree of a cluster's ZooKeeper, and change it."""
    check_layout(layout)
    _layout.set(layout)


async def _read(registry: Registry, path: str) -> ShownZnode:
    return ShownZnode(path, *await registry.get(path), _layout.get())


def _child(path: str, name: str) -> str:
    return f"{path.rstrip('/')}/{name}"


async def _children(registry: Registry, path: str) -> list[ShownZnode]:
    """Return the children of a znode, sorted by name, without those that are deleted meanwhile."""
    names = sorted(await registry.children(path))
    found = await asyncio.gather(*(_read(registry, _child(path, name)) for name in names), return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException) and not isinstance(one, NoNodeError):
            raise one
    return [one for one in found if not isinstance(one, BaseException)]


@zk.command("ls", epilog="Example:  ottla zk ls /brokers/topics --zookeeper localhost:2181")
def list_children(
    path: TopPath = "/",
    as_json: AsJson = False,
    zookeeper: Address = DEFAULT_ZOOKEEPER,
    log_dir: LogDir = None,
    zookeeper_config: ZooKeeperConfig = None,
) -> None:
    """List the children of a znode."""

    async def main() -> None:
        async with opened(zookeeper, log_dir, config=zookeeper_config) as registry:
            names = sorted(await registry.children(path))
        if as_json:
            print_json(names)
        else:
            print("".join(f"{name}\n" for name in names), end="")

    run(main())


@zk.command(epilog="Example:  ottla zk get /brokers/topics/orders")
def get(
    path: NodePath,
    as_json: AsJson = False,
    zookeeper: Address = DEFAULT_ZOOKEEPER,
    log_dir: LogDir = None,
    zookeeper_config: ZooKeeperConfig = None,
) -> None:
    """Show the content of a znode; with --json also its kind, its stat, and the rule that invalid content breaks."""

    async def main() -> None:
        async with opened(zookeeper, log_dir, config=zookeeper_config) as registry:
            node = await _read(registry, path)
        if as_json:
            print_json(node.document())
        else:
            _print_content(node)

    run(main())


def _print_content(node: ShownZnode) -> None:
    value = node.value
    if value is not None:
        print(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))
    if node.fault is not None:
        print(f"not readable as {node.kind}: {node.fault}", file=sys.stderr)


@zk.command(epilog="Example:  ottla zk stat /controller")
def stat(
    path: NodePath,
    as_json: AsJson = False,
    zookeeper: Address = DEFAULT_ZOOKEEPER,
    log_dir: LogDir = None,
    zookeeper_config: ZooKeeperConfig = None,
) -> None:
    """Show the kind of a znode, its stat (transactions, times, versions, the owner's session) and its ACL."""

    async def main() -> None:
        async with opened(zookeeper, log_dir, config=zookeeper_config) as registry:
            node = await _read(registry, path)
            acl, _ = await registry.get_acl(path)
        entries = [f"{entry.scheme}:{entry.id}:{entry.permissions}" for entry in acl]
        if as_json:
            document = node.document()
            del document["value"]
            print_json({**document, "acl": entries})
            return
        rows: list[tuple[str, object]] = [("path", path), ("kind", node.kind), ("ephemeral owner", node.owner)]
        for name, value in node.stat._asdict().items():
            if name in ("ctime", "mtime"):
                rows.append((name, datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")))
            elif name != "ephemeral_owner":
                rows.append((name.replace("_", " "), str(value)))
        print_table(("", ""), [*rows, ("acl", " ".join(entries))])

    run(main())


@zk.command(epilog="Example:  ottla zk tree /brokers --depth 2")
def tree(
    path: TopPath = "/",
    depth: Annotated[int, typer.Option("--depth", min=1, help="How many levels below the path.")] = 64,
    as_json: AsJson = False,
    zookeeper: Address = DEFAULT_ZOOKEEPER,
    log_dir: LogDir = None,
    zookeeper_config: ZooKeeperConfig = None,
) -> None:
    """Show a znode and everything below it."""

    async def main() -> None:
        async with opened(zookeeper, log_dir, config=zookeeper_config) as registry:
            nodes = [(0, await _read(registry, path))]
            nodes += await _below(registry, nodes[0][1], depth)
        if as_json:
            print_json([node.document() for _, node in nodes])
        else:
            _print_tree(nodes)

    run(main())


async def _below(registry: Registry, top: ShownZnode, depth: int) -> list[tuple[int, ShownZnode]]:
    """Return the descendants of a znode with their levels, parents before children. Reads one whole level at a time."""
    below: dict[str, list[ShownZnode]] = {}
    level = [top]
    for _ in range(depth):
        parents = [node for node in level if node.stat.num_children]
        below |= zip(
            (node.path for node in parents),
            await asyncio.gather(*(_children_of_living(registry, node.path) for node in parents)),
            strict=True,
        )
        level = [child for node in parents for child in below[node.path]]

    def in_order(node: ShownZnode, indent: int) -> list[tuple[int, ShownZnode]]:
        found = []
        for child in below.get(node.path, ()):
            found += [(indent, child), *in_order(child, indent + 1)]
        return found

    return in_order(top, 1)


async def _children_of_living(registry: Registry, path: str) -> list[ShownZnode]:
    try:
        return await _children(registry, path)
    except NoNodeError:  # deleted meanwhile
        return []


def _print_tree(nodes: list[tuple[int, ShownZnode]]) -> None:
    from rich.console import Console  # rich takes 20 ms; most commands do not need it
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else 100_000, highlight=False)
    for indent, node in nodes:
        name = node.path if indent == 0 else node.path.rsplit("/", 1)[1]
        row = Text("  " * indent).append(name, style="bold" if node.stat.num_children else "")
        if node.owner is not None:
            row.append(f" [{node.owner}]", style="cyan")
        line = node.line
        if line:
            shown = line if len(line) <= _TREE_ROW else f"{line[:_TREE_ROW]}…"
            row.append(f"  {shown}", style="dim")
        if node.fault is not None:
            row.append(f"  not readable as {node.kind}: {node.fault}", style="red")
        console.print(row, soft_wrap=True)


@zk.command(epilog="Example:  ottla zk watch /controller")
def watch(
    path: NodePath,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Stop after this many lines.")] = None,
    as_json: AsJson = False,
    zookeeper: Address = DEFAULT_ZOOKEEPER,
    log_dir: LogDir = None,
    zookeeper_config: ZooKeeperConfig = None,
) -> None:
    """Print a line with a znode and its children now and after every change, until Ctrl-C.

    One line may show several changes that follow each other closely.
    """

    async def main() -> None:
        async with opened(zookeeper, log_dir, config=zookeeper_config) as registry:
            changed = asyncio.Event()
            registry.watch_data(path, changed.set)
            registry.watch_children(path, changed.set)
            before, printed = "", 0
            while count is None or printed < count:
                line = await _state(registry, path, as_json=as_json)
                if line != before:
                    print(line, flush=True)
                    before, printed = line, printed + 1
                    continue
                await changed.wait()
                changed.clear()

    run(main())


async def _state(registry: Registry, path: str, *, as_json: bool) -> str:
    try:
        node = await _read(registry, path)
        names = sorted(await registry.children(path))
    except NoNodeError:
        return json.dumps({"path": path, "exists": False}) if as_json else f"{path} does not exist"
    if as_json:
        return json.dumps({**node.document(), "exists": True, "children": names}, ensure_ascii=False)
    children = f"  children: {' '.join(names)}" if names else ""
    owner = "" if node.owner is None else f" [{node.owner}]"
    return f"{path}{owner} version {node.stat.version}  {node.line}{children}".rstrip()


# -- writing -----------------------------------------------------------------------------------------------------------


@zk.command(epilog="""Example:  ottla zk create --write /admin/delete_topics/orders""")
def create(
    path: NodePath,
    value: Annotated[str | None, typer.Argument(help="The content. Default: no data.", metavar="VALUE")] = None,
    sequence: Annotated[bool, typer.Option("--sequence", help="Append a sequence number of ten digits.")] = False,
    parents: Annotated[bool, typer.Option("--parents", help="Also create missing parents.")] = False,
    raw: Raw = False,
    write: Write = False,
    zookeeper: Address = DEFAULT_ZOOKEEPER,
    log_dir: LogDir = None,
    zookeeper_config: ZooKeeperConfig = None,
) -> None:
    """Create a znode. Content that Kafka cannot read is refused."""
    data = None if value is None else value.encode("utf-8", "surrogateescape")
    data = _checked(f"{path}0000000000" if sequence else path, data, write=write, raw=raw)

    async def work(registry: Registry) -> str:
        return f"{await registry.create(path, data, sequence=sequence, make_parents=parents)} created"

    _change(work, zookeeper, log_dir, zookeeper_config, make_chroot=parents)


@zk.command("set", epilog="""Example:  ottla zk set --write /controller_epoch 7 --version 6""")
def set_value(
    path: NodePath,
    value: Annotated[str, typer.Argument(help="The new content.", metavar="VALUE")],
    version: Version = -1,
    raw: Raw = False,
    write: Write = False,
    zookeeper: Address = DEFAULT_ZOOKEEPER,
    log_dir: LogDir = None,
    zookeeper_config: ZooKeeperConfig = None,
) -> None:
    """Replace the content of a znode. Content that Kafka cannot read is refused."""
    data = _checked(path, value.encode("utf-8", "surrogateescape"), write=write, raw=raw)

    async def work(registry: Registry) -> str:
        return f"{path} set, version {(await registry.set(path, data, version)).version}"

    _change(work, zookeeper, log_dir, zookeeper_config)


@zk.command(epilog="Example:  ottla zk delete --write /admin/reassign_partitions")
def delete(
    path: NodePath,
    version: Version = -1,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="Also delete its descendants.")] = False,
    write: Write = False,
    zookeeper: Address = DEFAULT_ZOOKEEPER,
    log_dir: LogDir = None,
    zookeeper_config: ZooKeeperConfig = None,
) -> None:
    """Delete a znode."""
    _require_write(write)
    if recursive and path == "/":
        raise CommandError("--recursive cannot delete /")

    async def work(registry: Registry) -> str:
        count = 0
        if recursive:
            for _, node in reversed(await _below(registry, await _read(registry, path), 1_000)):
                await registry.delete(node.path)
                count += 1
        await registry.delete(path, version)
        return f"{path} deleted" + (f", and {count} below it" if count else "")

    _change(work, zookeeper, log_dir, zookeeper_config)


@zk.command(epilog="Example:  ottla zk secure --write --zookeeper-config server.properties")
def secure(
    path_check: PathCheck = False,
    write: Write = False,
    zookeeper: Address = DEFAULT_ZOOKEEPER,
    zookeeper_config: ZooKeeperConfig = None,
) -> None:
    """Protect the znodes of a cluster: only the user of this command may change them or read passwords and keys.

    Brokers must log in as this user, with zookeeper.set.acl=true. Kafka's zookeeper-security-migration does the same.
    """
    _migrate(zookeeper, zookeeper_config, is_protected=True, path_check=path_check, write=write)


@zk.command(epilog="Example:  ottla zk unsecure --write --zookeeper-config server.properties")
def unsecure(
    path_check: PathCheck = False,
    write: Write = False,
    zookeeper: Address = DEFAULT_ZOOKEEPER,
    zookeeper_config: ZooKeeperConfig = None,
) -> None:
    """Open the znodes of a cluster to everybody, as they are without zookeeper.set.acl."""
    _migrate(zookeeper, zookeeper_config, is_protected=False, path_check=path_check, write=write)


def _migrate(zookeeper: str, config: Path | None, *, is_protected: bool, path_check: bool, write: bool) -> None:
    _require_write(write)

    async def main() -> None:
        async with opened(zookeeper, config=config) as registry:
            missing = await missing_roots(registry)
            if missing and path_check:
                raise CommandError(
                    f"nothing was changed, because these paths are missing: {', '.join(missing)}; is the chroot right?"
                )
            try:
                outcome = await migrate(registry, is_protected=is_protected, on_change=print)
            except InvalidAclError:
                rule = "ZooKeeper does not know this user: give a login or a client certificate with --zookeeper-config"
                raise CommandError(rule) from None
            except NoAuthError as error:
                rule = "only the user that protected this znode may change its ACL: repeat the command as that user"
                raise CommandError(f"{error.path}: {rule}") from None
        if missing:
            say(f"created because they were missing: {', '.join(missing)}; is the chroot right?")
        print(f"{len(outcome.changed)} of {outcome.looked_at} znodes changed")

    run(main())


def _require_write(write: bool) -> None:
    if not write:
        raise CommandError("nothing was changed: use --write to change the tree")


def _checked(path: str, data: bytes | None, *, write: bool, raw: bool) -> bytes | None:
    """Check the content of a znode and return the data to write, converted for layout 0.7. Raises CommandError."""
    _require_write(write)
    if raw:
        return data
    layout = _layout.get()
    try:
        if layout == LEGACY_07 and data is not None:
            data = legacy_bytes(path, data)
        check_content(path, data, layout)
    except ZnodeFormatError as error:
        reader = "Kafka 0.7" if layout == LEGACY_07 else "Kafka"
        raise CommandError(f"{reader} cannot read this content: {error} (--raw writes it anyway)") from None
    return data


def _change(
    work: Callable[[Registry], Awaitable[str]],
    zookeeper: str,
    log_dir: Path | None,
    config: Path | None,
    *,
    make_chroot: bool = False,
) -> None:
    async def main() -> None:
        async with opened(zookeeper, log_dir, make_chroot=make_chroot, config=config) as registry:
            print(await work(registry))

    run(main())
