"""docker-compose.yml: it fits the schema of compose files, and its commands make a cluster.

There is no container in these tests. What the services would run, health checks included, is run as processes of this
machine: a service's host and port become 127.0.0.1 and a port that was free, its paths become directories of the test.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from broker.first_commands import TRY
from broker.settings.config import BrokerConfig
from ottla.cli import main
from ottla.cluster.ports import free_ports
from support.broker import ROOT
from support.checkout import checkout_only
from support.deadlines import DEADLINE_S
from support.polling import until_blocking

pytestmark = checkout_only
FILE = ROOT / "docker-compose.yml"
BROKERS = ("broker-1", "broker-2", "broker-3")
ZOOKEEPERS = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
PROGRAMS = {"ottla": [sys.executable, "-m", "ottla"], "python": [sys.executable]}


@pytest.fixture(scope="module")
def compose():
    return YAML(typ="safe").load(FILE)


@pytest.fixture(scope="module")
def dockerfile():
    return (ROOT / "Dockerfile").read_text()


def is_valid(path):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_it_fits_the_schema_of_compose_files(tmp_path):
    assert is_valid(FILE)
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text(FILE.read_text().replace("restart:", "restarts:"))
    assert not is_valid(wrong)


def test_services_are_looked_after(compose):
    services = compose["services"]
    assert sorted(services) == sorted((*BROKERS, *ZOOKEEPERS))
    for name, service in services.items():
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"][0] == "CMD"
        assert seconds(service["stop_grace_period"]) > 10, "docker's own ten seconds are too few for a clean stop"
        assert service["volumes"] == [f"{name}:/data"]
        assert name in compose["volumes"]


def test_what_brokers_tell_clients_of_this_machine_is_published(compose):
    for name in BROKERS:
        service = compose["services"][name]
        (advertised,) = [word for word in service["command"] if word.startswith("--set=advertised.listeners=")]
        inside, outside = advertised.partition("=advertised.listeners=")[2].split(",")
        assert inside == f"INTERNAL://{name}:9092"
        assert f"{outside.removeprefix('EXTERNAL://')}:19092" in service["ports"]


def test_the_images_are_there_and_hold_every_package(compose, dockerfile):
    targets = re.findall(r"^FROM \S+ AS (\S+)$", dockerfile, flags=re.MULTILINE)
    assert {service["build"]["target"] for service in compose["services"].values()} <= set(targets)
    assert targets[-1] == "broker"
    copied = set(re.findall(r"^COPY (\w+) \1$", dockerfile, flags=re.MULTILINE))
    assert copied == {file.parent.name for file in ROOT.glob("*/__init__.py")} - {"benchmarks", "examples"}
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sent == copied | {"constraints.txt", "pyproject.toml", "README.md", "LICENSE"}


def test_the_image_has_an_exact_base_and_does_not_run_as_root(dockerfile):
    (base,) = re.findall(r"^ARG PYTHON=(\S+)$", dockerfile, flags=re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", base)
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", dockerfile, flags=re.MULTILINE)
    names = [name for _, name in stages]
    assert {source for source, _ in stages} <= {"${PYTHON}", *names}
    for _, name in stages:
        users = re.findall(
            r"^USER (\S+)$", dockerfile.partition(f" AS {name}\n")[2].partition("\nFROM ")[0], re.MULTILINE
        )
        if name in ("runtime", "broker"):
            assert users[-1] == "1000:1000"  # with a name, Kubernetes' runAsNonRoot refuses the image
        elif name == "zookeeper":
            assert users == []  # that of `runtime`


def printed_settings(dockerfile):
    """The settings of the image, and the path of their file."""
    (found,) = re.findall(r"printf '%s\\n' \\\n +(.*) > (\S+)$", dockerfile, flags=re.MULTILINE)
    return found


def test_a_site_cannot_read_the_console_by_a_name_of_its_own(compose, dockerfile, tmp_path):
    """DNS rebinding: a script of the site would read records in the visitor's browser; the console is open to all."""
    content = {
        "image": "\n".join(printed_settings(dockerfile)[0].split()),
        "compose": compose["configs"]["broker"]["content"],
    }
    for kind, names in (("image", ["localhost"]), ("compose", ["localhost", *BROKERS])):
        path = tmp_path / kind
        path.write_text(content[kind])
        # The file of the compose cluster leaves the advertised addresses to the commands.
        advertised = {} if kind == "image" else {"KAFKA_ADVERTISED_LISTENERS": "INTERNAL://a:9092,EXTERNAL://b:9092"}
        config = BrokerConfig.load(path, environment=advertised)
        assert list(config.ottla_console_open) == ["read"]
        assert list(config.ottla_console_hosts) == names


def test_the_environment_of_a_container_overrides_the_settings_of_the_image(dockerfile, tmp_path):
    """As `docker run --env KAFKA_LISTENERS=...` does."""
    printed = printed_settings(dockerfile)
    command = json.loads(re.findall(r"^CMD (\[.*\])$", dockerfile, flags=re.MULTILINE)[-1])
    assert command == ["broker", printed[1]]
    path = tmp_path / "server.properties"
    path.write_text("\n".join(printed[0].split()))
    config = BrokerConfig.load(path, environment={})
    assert (config.broker_id, config.log_dirs, config.warnings) == (0, (Path("/data"),), [])
    environment = {"KAFKA_LISTENERS": "PLAINTEXT://:9192", "KAFKA_BROKER_ID": "7", "OTTLA_CONSOLE_LISTENER": ""}
    config = BrokerConfig.load(path, environment=environment)
    assert (config.listeners[0].port, config.broker_id, config.ottla_console_listener) == (9192, 7, None)


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


class Host:
    """Services as processes of this machine."""

    def __init__(self, compose, dockerfile, folder):
        self.compose = compose
        self.folder = folder
        self.entrypoint = json.loads(re.search(r"^ENTRYPOINT (\[.*\])$", dockerfile, flags=re.MULTILINE)[1])
        self.processes = {}
        names = [(name, port) for name in BROKERS for port in (9092, 19092, 8080)]
        names += [(name, port) for name in ZOOKEEPERS for port in (2181, 2888, 3888)]
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))

    def address(self, service, port):
        return f"127.0.0.1:{self.ports[service, port]}"

    def here(self, service, text):
        """A word of a service's command or configuration, as it is on this machine."""
        published = dict(entry.rsplit(":", 1) for entry in self.compose["services"][service].get("ports", ()))
        at_peer = rf"\b({'|'.join((*BROKERS, *ZOOKEEPERS))}):(\d+)(?::(\d+))?"

        def peer(match):
            ports = [self.ports[match[1], int(port)] for port in match.groups()[1:] if port]
            return ":".join(["127.0.0.1", *map(str, ports)])

        text = re.sub(r"127\.0\.0\.1:\d+", lambda match: f"{service}:{published[match[0]]}", text)
        text = re.sub(r"0\.0\.0\.0:(\d+)", rf"{service}:\1", text)
        text = re.sub(at_peer, peer, text)
        text = re.sub(r"^--port=(\d+)", lambda match: f"--port={self.ports[service, int(match[1])]}", text)
        text = text.replace("0.0.0.0", "127.0.0.1")
        return re.sub(r"(?<![\w/])/data\b", str(self.folder / service), text)

    def config_files(self, service):
        """The configurations of a service, written as files: the path in the container, and that on this machine."""
        files = {}
        for entry in self.compose["services"][service].get("configs", ()):
            path = self.folder / f"{service}.{entry['source']}"
            content = self.compose["configs"][entry["source"]]["content"]
            lines = [self.here(service, line) for line in content.splitlines()]
            # All brokers stop at once here: whoever asks a controller that is going asks again, by default after 5 s.
            path.write_text("\n".join([*lines, "controlled.shutdown.retry.backoff.ms=100"]))
            files[entry["target"]] = str(path)
        return files

    def start(self, service):
        files = self.config_files(service)
        words = [files.get(word) or self.here(service, word) for word in self.compose["services"][service]["command"]]
        (self.folder / service).mkdir()  # as the volume is
        with (self.folder / f"{service}.out").open("w") as out:
            self.processes[service] = subprocess.Popen(
                [*PROGRAMS[self.entrypoint[0]], *self.entrypoint[1:], *words],
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def is_healthy(self, service):
        """What the service's check says; the command `ottla` runs in this process."""
        check = self.compose["services"][service]["healthcheck"]
        program, *words = check["test"][1:]
        words = [
            re.sub(r"127\.0\.0\.1:(\d+)", lambda match: self.address(service, int(match[1])), word) for word in words
        ]
        if program == "ottla":
            return main(words) == 0
        done = subprocess.run(
            [*PROGRAMS[program], *words],
            capture_output=True,
            timeout=DEADLINE_S,  # that of the file is for a machine of one's own
            check=False,
        )
        return done.returncode == 0

    def said(self, service):
        return (self.folder / f"{service}.out").read_text()

    def wait_healthy(self, service):
        """Until its check says so, which is not asked before the service says that it is ready."""
        ready = TRY if service in BROKERS else "ZooKeeper serves on"
        for is_so in (lambda: ready in self.said(service), lambda: self.is_healthy(service)):
            until_blocking(lambda is_so=is_so: is_so() or self.has_ended(service), f"{service} is healthy")
            assert not self.has_ended(service), self.said(service)

    def has_ended(self, service):
        return self.processes[service].poll() is not None

    def stop(self, *services):
        """As docker stops them: SIGTERM, and no longer than the grace period. The exit codes."""
        for service in services:
            self.processes[service].send_signal(signal.SIGTERM)
        periods = [seconds(self.compose["services"][service]["stop_grace_period"]) for service in services]
        return [self.processes[one].wait(period) for one, period in zip(services, periods, strict=True)]

    def close(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture
def host(compose, dockerfile, tmp_path):
    host = Host(compose, dockerfile, tmp_path)
    yield host
    host.close()


def test_the_commands_make_a_cluster(host, ottla):
    for service in (*ZOOKEEPERS, *BROKERS):
        host.start(service)
    assert not host.is_healthy("broker-1")  # too early: a check that cannot fail is none
    for service in (*ZOOKEEPERS, *BROKERS):
        host.wait_healthy(service)
    zookeeper = host.address("zookeeper-2", 2181)
    assert ottla("zk", "ls", "/brokers/ids", "--zookeeper", zookeeper).out.split() == ["1", "2", "3"]
    outside = host.address("broker-2", 19092)
    created = ottla("topics", "create", "orders", "--json", "-b", outside).json[0]
    assert created["replication_factor"] == 3
    ottla("produce", "orders", "--acks", "all", "-b", outside, stdin=b"one\ntwo\n")
    for broker in BROKERS:  # whichever is asked
        assert ottla("consume", "orders", "-b", host.address(broker, 19092)).out == "one\ntwo\n"
    assert host.stop(*BROKERS) == [0, 0, 0]
    assert host.stop(*ZOOKEEPERS) == [0, 0, 0]
    assert not host.is_healthy("broker-1")
    assert not host.is_healthy("zookeeper-1")
