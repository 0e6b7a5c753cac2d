"""A cluster on a plain ZooKeeper gets TLS, a login and ACLs there, and gives them up, while clients go on.

The steps are those of docs/security.md, with `ottla zk secure` and `ottla zk unsecure` on the running cluster.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from registry.errors import NoAuthError
from registry.zookeeper.address import ZooKeeperAddress
from support.broker import ROOT
from support.changing_cluster import Change, ChangingCluster, changing
from support.cluster_security import PLAINTEXT
from support.counts import full_only
from support.deadlines import DEADLINE_S
from support.polling import until
from support.secured_zookeeper import secured_zookeeper, shared_secured_zookeeper

SET_ACL = "zookeeper.set.acl"
PATHS = ("/brokers/topics/t", "/cluster/id", "/controller_epoch")


class PlainPort(NamedTuple):
    """The port for everybody of a ZooKeeper that has one for TLS, too."""

    connect: str


@full_only
@pytest.mark.timeout(600)
async def test_from_a_plain_zookeeper_to_tls_a_login_and_acls_and_back(tmp_path: Path) -> None:
    async with changing(ChangingCluster(tmp_path, PlainPort(secured_zookeeper().address))) as (cluster, change):
        chroot = ZooKeeperAddress.parse(cluster.connect).chroot
        with_acls = {"zookeeper.connect": shared_secured_zookeeper().connect + chroot}
        with_acls |= shared_secured_zookeeper().settings
        with_login = with_acls | {SET_ACL: "false"}
        file = tmp_path / "zookeeper.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in with_acls.items() if name != SET_ACL))

        await change.roll(with_login, PLAINTEXT)
        assert await writable(cluster) == set(PATHS)
        await change.roll(with_acls, PLAINTEXT)
        await migrate("secure", with_acls, file)
        await change.goes_on()
        assert await writable(cluster) == set()
        await a_controller_dies(change)

        await change.roll(with_login, PLAINTEXT)
        await migrate("unsecure", with_acls, file)
        await change.goes_on()
        assert await writable(cluster) == set(PATHS)
        await change.roll({}, PLAINTEXT)
        await change.check()


async def migrate(command: str, settings: Mapping[str, str], file: Path) -> None:
    """Run the command on the running cluster."""
    options = ("--write", "--zookeeper", settings["zookeeper.connect"], "--zookeeper-config", file)
    words = [sys.executable, "-m", "ottla", "zk", command, *map(str, options)]
    ended = await asyncio.to_thread(
        subprocess.run, words, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "/brokers/topics/t\n" in ended.stdout


async def writable(cluster: ChangingCluster) -> set[str]:
    """Return which of some paths everybody may write, by writing what is there."""
    found = set()
    for path in PATHS:
        data, stat = await cluster.registry.get(path)
        try:
            await cluster.registry.set(path, data, stat.version)
        except NoAuthError:
            continue
        found.add(path)
    return found


async def a_controller_dies(change: Change) -> None:
    """Another broker takes over, with znodes that it did not create, and the broker comes back."""
    controller = await change.cluster.controller()
    await change.cluster.kill(controller)

    async def is_replaced() -> bool:
        return await change.cluster.controller() not in (controller, -1)

    await until(is_replaced, "another is the controller")
    await change.goes_on()
    await change.cluster.start(controller)
    await change.all_are_in_sync()
    await change.goes_on()
