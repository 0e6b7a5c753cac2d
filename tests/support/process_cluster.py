"""A cluster of broker processes with a control API, as a test in another language sees it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from support.cluster_command import Running
from support.deadlines import DEADLINE_S
from support.faulty_cluster import QUICK
from support.polling import until_blocking


class RefusedError(Exception):
    """The control API has refused something; the text is its answer."""


class ProcessCluster:
    """`ottla cluster --control-port 0` with three brokers, and its control API."""

    def __init__(self, *words: str, paths: Sequence[Path] = ()) -> None:
        """paths: see Running."""
        self.command = Running("--control-port", 0, "--no-console", *words, paths=paths)

    def __enter__(self) -> ProcessCluster:
        try:
            self.command.ready()
        except BaseException:
            self.command.__exit__()
            raise
        self.url = self.command.value("control")
        self.bootstrap_servers = self.command.value("bootstrap")
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap_servers} | QUICK)
        return self

    def __exit__(self, *_: object) -> None:
        self.command.__exit__()

    # -- the control API ---------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer of the control API. Raises RefusedError."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=3 * DEADLINE_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise RefusedError(f"{error.code}: {json.load(error)['error']}") from None

    def inject(self, verb: str, **options: Any) -> Any:
        """Inject a fault; return what is told of it."""
        return self.ask("POST", "/faults", {"verb": verb} | options)

    @contextmanager
    def fault(self, verb: str, **options: Any) -> Iterator[Any]:
        """Inject a fault, and heal it at the end."""
        told = self.inject(verb, **options)
        yield told
        self.ask("DELETE", f"/faults/{told['id']}")

    def active(self) -> list[Any]:
        """The faults in effect."""
        found: list[Any] = self.ask("GET", "/faults")["faults"]
        return found

    def uses(self, told: Any) -> int:
        """How often a fault in effect has taken effect."""
        (uses,) = [one["uses"] for one in self.active() if one["id"] == told["id"]]
        return int(uses)

    def states(self) -> dict[int, str]:
        """What each broker does."""
        return {one["id"]: one["state"] for one in self.ask("GET", "/")["brokers"]}

    def address(self, broker_id: int) -> str:
        """The address of a broker."""
        (found,) = [one["bootstrap_servers"] for one in self.ask("GET", "/")["brokers"] if one["id"] == broker_id]
        return str(found)

    # -- the cluster, as librdkafka sees it --------------------------------------------------------------------------

    def create_topic(self, name: str, assignment: list[list[int]], **configs: str) -> str:
        """Create a topic with these replicas of each partition, and wait until the first ones lead."""
        config = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(name, len(assignment), replica_assignment=assignment, config=config)
        self.admin.create_topics([new])[name].result(3 * DEADLINE_S)
        leaders = [replicas[0] for replicas in assignment]
        until_blocking(lambda: self.leaders(name) == leaders, f"{leaders} lead {name}")
        until_blocking(lambda: self.isr(name) == set(assignment[0]), "all replicas are in sync")
        return name

    def leaders(self, topic: str) -> list[int]:
        """The leaders of its partitions in the metadata of any broker."""
        found = self.admin.list_topics(topic, 3 * DEADLINE_S).topics[topic].partitions
        return [found[number].leader for number in sorted(found)]

    def isr(self, topic: str) -> set[int]:
        """The in-sync replicas of partition 0 in the metadata of any broker."""
        partitions = self.admin.list_topics(topic, 3 * DEADLINE_S).topics[topic].partitions
        return set(partitions[0].isrs) if partitions else set()

    def controller(self) -> int:
        """The controller in the metadata of any broker."""
        return int(self.admin.list_topics(timeout=3 * DEADLINE_S).controller_id)

    def present(self) -> set[int]:
        """The brokers that run and are in the metadata."""
        running = {broker_id for broker_id, state in self.states().items() if state == "running"}
        return running & set(self.admin.list_topics(timeout=DEADLINE_S).brokers)
