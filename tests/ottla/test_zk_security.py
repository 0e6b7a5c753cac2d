"""Commands that open a ZooKeeper with TLS and SASL, and the ACLs of a tree that exists."""

import asyncio
import json

import pytest

from ottla.command_line.failure import CommandError
from ottla.zookeeper.acl_migration import migrate
from ottla.zookeeper.security import zookeeper_security
from registry.errors import NoNodeError
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from registry.zookeeper.settings import NETTY_SOCKET
from security.jaas import ZOOKEEPER_MODULE
from support.broker import broker_process
from support.reference import REFERENCE
from support.secured_zookeeper import secured_zookeeper
from support.zookeeper import new_chroot

JAAS = f'{ZOOKEEPER_MODULE} required username="kafka" password="kafka-secret";'


def recorded(name):
    rows = json.loads((REFERENCE / "security" / f"zookeeper-{name}.json").read_text())
    return {row["path"]: row["acl"] for row in rows}


async def opened(work, chroot="", user="kafka"):
    server = secured_zookeeper()
    registry = ZooKeeperRegistry(ZooKeeperAddress.parse(server.address + chroot), security=server.security(user=user))
    await registry.start()
    try:
        return await work(registry)
    finally:
        await registry.close()


def acls(chroot):
    async def read(registry):
        found, paths = {}, ["/"]
        for path in paths:
            acl, _ = await registry.get_acl(path)
            found[path] = [f"{one.scheme}:{one.id}:{one.permissions}" for one in acl]
            paths += [f"{path.rstrip('/')}/{name}" for name in await registry.children(path)]
        return found

    return asyncio.run(opened(read, chroot))


@pytest.fixture
def tree():
    """A chroot with the znodes of the recorded cluster, before its migration; open to all."""
    chroot = new_chroot()

    async def make(registry):
        for path in recorded("set-acl"):
            if path not in ("/", "/controller"):  # the broker was down, so there was no controller
                await registry.create(path)

    asyncio.run(opened(make, chroot))
    return chroot


@pytest.fixture
def config(tmp_path):
    """The file of a broker that logs in without TLS."""
    file = tmp_path / "server.properties"
    file.write_text(f"broker.id=1\nlisteners=PLAINTEXT://:9092\nottla.zookeeper.sasl.jaas.config={JAAS}\n")
    return file


@pytest.fixture
def zk(ottla, config):
    """Runs `ottla zk …` as the user kafka."""
    options = ("--zookeeper-config", str(config), "--zookeeper")
    return lambda chroot, *words, code=0: ottla(
        "zk", *words, *options, f"{secured_zookeeper().address}{chroot}", code=code
    )


def test_the_migration_gives_the_recorded_acls(zk, tree):
    secured = recorded("secured") | {"/brokers/ids/0": recorded("set-acl")["/brokers/ids/0"]}
    opened_again = recorded("unsecured") | {"/brokers/ids/0": ["world:anyone:31"]}
    shown = zk(tree, "secure", "--write")
    assert acls(tree) == secured
    changed = shown.out.splitlines()
    assert sorted(changed[:-1]) == sorted(path for path in secured if path != "/consumers")
    assert changed[-1] == f"{len(secured) - 1} of {len(secured) - 1} znodes changed"
    assert shown.err == "created because they were missing: /migration; is the chroot right?\n"
    again = zk(tree, "secure", "--write")
    assert (again.out, again.err) == (f"0 of {len(secured) - 1} znodes changed\n", "")
    zk(tree, "unsecure", "--write")
    assert acls(tree) == opened_again
    assert zk(tree, "unsecure", "--write").out.startswith("0 of ")


def test_a_migration_that_was_interrupted_is_completed(zk, tree):
    zk(tree, "secure", "--write")

    async def add(registry):
        await registry.create("/brokers/topics/new")

    asyncio.run(opened(add, tree))
    assert zk(tree, "secure", "--write").out.splitlines()[0] == "/brokers/topics/new"


def test_a_migration_needs_to_be_said_and_the_right_chroot(zk, tree):
    assert "--write" in zk(tree, "secure", code=1).err
    for option in ("--path-check", "--enable.path.check"):
        message = zk(tree, "secure", "--write", option, code=1).err
        assert (
            message == "ottla: nothing was changed, because these paths are missing: /migration; is the chroot right?\n"
        )
    assert "the chroot does not exist" in zk(new_chroot(), "secure", "--write", code=1).err
    assert set(map(tuple, acls(tree).values())) == {("world:anyone:31",)}


def test_a_migration_needs_an_identity(ottla, zk, tree):
    connect = ("--zookeeper", f"{secured_zookeeper().address}{tree}")
    assert "does not know this user" in ottla("zk", "secure", "--write", *connect, code=1).err
    zk(tree, "secure", "--write")
    assert "/: only the user that protected this znode" in ottla("zk", "unsecure", "--write", *connect, code=1).err


async def test_znodes_that_are_deleted_meanwhile():
    class Vanishing:
        """A registry whose znodes are there when they are listed only."""

        async def get_acl(self, path):
            raise NoNodeError("gone", path)

        async def children(self, path):
            if path == "/brokers":
                return ["ids"]
            raise NoNodeError("gone", path)

        async def create(self, path, *, acl):
            return path

    outcome = await migrate(Vanishing(), is_protected=True, on_change=lambda path: None)
    assert outcome.looked_at == 0


def test_what_commands_create_gets_kafkas_acl(zk, ottla, config, tree):
    zk(tree, "create", "--write", "/config/users/alice", '{"version":1,"config":{}}')
    assert zk(tree, "stat", "--json", "/config/users/alice").json["acl"] == ["sasl:kafka:31"]
    config.write_text(config.read_text() + "zookeeper.set.acl=false\n")
    zk(tree, "create", "--write", "/config/users/bob", '{"version":1,"config":{}}')
    assert zk(tree, "stat", "--json", "/config/users/bob").json["acl"] == ["world:anyone:31"]


def test_users_and_groups_take_the_file(ottla, config, tree):
    options = ("--zookeeper-config", str(config), "--zookeeper", f"{secured_zookeeper().address}{tree}")
    ottla("users", "add", "carol", "--mechanism", "SCRAM-SHA-256", *options, stdin=b"pencil\n")
    assert acls(tree)["/config/users/carol"] == ["sasl:kafka:31"]
    assert [row["user"] for row in ottla("users", "list", "--json", *options).json] == ["carol"]
    config.write_text("zookeeper.ssl.client.enable=true\n")
    for words in (
        ("groups", "import-zookeeper"),
        ("groups", "export-zookeeper", "g"),
        ("users", "remove", "u", "--yes"),
    ):
        assert "zookeeper.clientCnxnSocket" in ottla(*words, *options, code=1).err


def test_tls_and_the_login_of_kafka_opts(ottla, tmp_path, monkeypatch, tree):
    server = secured_zookeeper()
    file = tmp_path / "tls.properties"
    file.write_text(
        f"zookeeper.ssl.client.enable=true\nzookeeper.clientCnxnSocket={NETTY_SOCKET}\n"
        f"zookeeper.ssl.truststore.location={server.folder / 'ca.pem'}\n"
    )
    (tmp_path / "jaas.conf").write_text(f"Client {{ {JAAS} }};")
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={tmp_path / 'jaas.conf'}")
    monkeypatch.setenv("OTTLA_ZOOKEEPER_CONFIG", str(file))
    connect = ("--zookeeper", f"{server.tls_address}{tree}")
    assert ottla("zk", "secure", "--write", *connect).code == 0
    assert ottla("zk", "stat", "--json", "/config/users", *connect).json["acl"] == ["sasl:kafka:31"]
    monkeypatch.delenv("OTTLA_ZOOKEEPER_CONFIG")
    assert ottla("zk", "ls", *connect, "--zk-tls-config-file", str(file)).out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("zookeeper.ssl.client.enabel=true", r"zookeeper\.ssl\.client\.enabel is not a setting.*mean zookeeper"),
        ("ottla.zookeeper.sasl.jaas=hush", "is not a setting"),
        ("zookeeper.ssl.client.enable=perhaps", "must be true or false"),
        ("zookeeper.ssl.truststore.location=/ca.pem", "has no effect without"),
        ("ottla.zookeeper.sasl.jaas.config=hush", "semicolon"),
    ],
)
def test_a_file_with_a_mistake(tmp_path, line, message):
    file = tmp_path / "zk.properties"
    file.write_text(line)
    with pytest.raises(CommandError, match=message) as caught:
        zookeeper_security(file, {})
    assert str(caught.value).startswith(f"{file}: ")
    assert "hush" not in str(caught.value)


def test_a_wrong_password_is_one_line(zk, config):
    config.write_text(config.read_text().replace("kafka-secret", "wrong-secret"))
    assert "refuses the login" in zk("", "ls", code=1).err


def test_a_cluster_is_protected_step_by_step(zk, ottla, tmp_path):
    """The steps of docs/security.md, with a broker that is killed in between: its session is ended with its login."""
    chroot = new_chroot()
    settings = {"zookeeper.connect": f"{secured_zookeeper().address}{chroot}", "ottla.zookeeper.sasl.jaas.config": JAAS}
    settings |= {"broker.id": "3", "offsets.topic.replication.factor": "1"}
    with broker_process(tmp_path / "data", **settings) as broker:
        ottla("topics", "create", "before", "-b", broker.bootstrap)
        broker.kill()
    with broker_process(tmp_path / "data", **settings, **{"zookeeper.set.acl": "true"}) as broker:
        ottla("topics", "create", "between", "-b", broker.bootstrap)
        protected = ["sasl:kafka:31", "world:anyone:1"]
        found = acls(chroot)
        assert found["/brokers/topics/before"] == ["world:anyone:31"]
        assert found["/brokers/topics/between"] == found["/brokers/ids/3"] == protected
        changed = zk(chroot, "secure", "--write").out.splitlines()
        assert "/brokers/topics/before" in changed
        assert "/brokers/topics/between" not in changed
        ottla("topics", "create", "after", "-b", broker.bootstrap)
        found = acls(chroot)
        assert {path for path, acl in found.items() if acl == ["world:anyone:31"]} == {"/consumers"}
        assert found["/config/brokers"] == found["/config/users"] == ["sasl:kafka:31"]
        assert ottla("topics", "list", "--json", "-b", broker.bootstrap).json
