"""What ACLs and quotas cost: one small produce request, to a broker without them and with them.

    python -m benchmarks.authorization --rounds 5

In a round, all brokers run at once, each a fresh process with an empty directory. They get short slices of requests in
turn, so that other work on the machine meets all of them alike. A slice is pipelined: `--in-flight` requests are on the
way. Its cost is the CPU time of the broker's threads, in nanoseconds of the scheduler (so: Linux). The minimum and the
lower quartile of many slices are what the requests cost while nothing else disturbed them. A share compares two brokers
of one round; the median of the rounds' shares counts, because two processes of one program differ by a few percent.

The topic's ACLs allow Write to the user of the load, so every request needs a decision: it is cached after the first
one. The quotas are of the user, for bytes and for time, and are not reached.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import struct
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.quotas import frame
from benchmarks.server import Ottla, directory
from client.admin.admin import Admin
from client.admin.quotas import QuotaEntity
from ottla.acls import AccessRule, AclBinding, Operation, PatternType, Permission, ResourcePattern, ResourceType

ACLS = 10_000
ANONYMOUS = "User:ANONYMOUS"
QUOTAS = {"producer_byte_rate": 1e12, "request_percentage": 1e6}
WARM_UP_SLICES = 20


class OttlaWithAcls(Ottla):
    """The broker with Kafka's AclAuthorizer. Resources without ACLs are open, so that the load can create them."""

    name = "ottla with ACLs"

    def command(self) -> list[str]:
        settings = {
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }
        return [*super().command(), *(part for pair in settings.items() for part in ("--set", "=".join(pair)))]

    def create_topic(self, topic: str, partitions: int) -> None:
        super().create_topic(topic, partitions)
        asyncio.run(self._create_acls(topic))

    async def _create_acls(self, topic: str) -> None:
        def acl(name: str, pattern: PatternType, operation: Operation, principal: str) -> AclBinding:
            rule = AccessRule(principal, "*", operation, Permission.ALLOW)
            return AclBinding(ResourcePattern(ResourceType.TOPIC, name, pattern), rule)

        bindings = [acl(topic, PatternType.LITERAL, one, ANONYMOUS) for one in (Operation.WRITE, Operation.DESCRIBE)]
        for number in range(ACLS // 2):
            bindings.append(acl(f"other-{number}", PatternType.LITERAL, Operation.READ, f"User:{number % 100}"))
            bindings.append(acl(f"prefix-{number}-", PatternType.PREFIXED, Operation.READ, f"User:{number % 100}"))
        async with Admin(bootstrap_servers=self.bootstrap) as admin:
            for start in range(0, len(bindings), 1000):
                outcomes = await admin.create_acls(bindings[start : start + 1000])
                assert not any(outcomes.values()), outcomes


class OttlaWithAclsAndQuotas(OttlaWithAcls):
    """The same broker, with quotas of the user of the load."""

    name = "ottla with ACLs and quotas"

    def create_topic(self, topic: str, partitions: int) -> None:
        super().create_topic(topic, partitions)
        asyncio.run(self._set_quotas())

    async def _set_quotas(self) -> None:
        async with Admin(bootstrap_servers=self.bootstrap) as admin:
            outcomes = await admin.alter_client_quotas({QuotaEntity(user="ANONYMOUS"): QUOTAS})
            assert not any(outcomes.values()), outcomes


KINDS = (Ottla, OttlaWithAcls, OttlaWithAclsAndQuotas)


class Load:
    """One connection to a broker, which sends the same Produce request again and again."""

    def __init__(self, server: Ottla, in_flight: int) -> None:
        self._server = server
        self._in_flight = in_flight
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = frame()
        self._requests = (struct.pack(">i", len(request)) + bytes(request)) * in_flight
        self._socket.sendall(self._requests[: 4 + len(request)])
        (size,) = struct.unpack(">i", self._socket.recv(4, socket.MSG_WAITALL))
        answer = self._socket.recv(size, socket.MSG_WAITALL)
        assert size < 100, answer  # without an error message
        self._answers = bytearray((4 + size) * in_flight)

    def slice(self, requests: int) -> float:
        """Return the CPU microseconds of one request; NaN if a thread of the broker has started or ended."""
        before = self._nanoseconds()
        for _ in range(requests // self._in_flight):
            self._socket.sendall(self._requests)
            self._socket.recv_into(self._answers, 0, socket.MSG_WAITALL)
        after = self._nanoseconds()
        if before.keys() != after.keys():
            return float("nan")
        return (sum(after.values()) - sum(before.values())) / requests / 1000

    def _nanoseconds(self) -> dict[str, int]:
        """Return the CPU time of each thread of the broker."""
        tasks = Path(f"/proc/{self._server.pid}/task")
        return {task.name: int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()}

    def close(self) -> None:
        self._socket.close()


def measure(slices: int, requests: int, in_flight: int) -> dict[str, list[float]]:
    """Return the microseconds of a request, of each slice, by broker."""
    found: dict[str, list[float]] = {kind.name: [] for kind in KINDS}
    with ExitStack() as stack:
        loads = {}
        for kind in KINDS:
            server = stack.enter_context(kind(directory()))
            server.create_topic("small", 1)
            loads[kind.name] = Load(server, in_flight)
            stack.callback(loads[kind.name].close)
        order = list(loads)
        for number in range(WARM_UP_SLICES + slices):
            for name in order:
                cost_us = loads[name].slice(requests)
                if number >= WARM_UP_SLICES and cost_us == cost_us:
                    found[name].append(cost_us)
            order.append(order.pop(0))
    return found


def lower_quartile(values: list[float]) -> float:
    return statistics.quantiles(values, n=4)[0]


FIGURES: dict[str, Callable[[list[float]], float]] = {"minimum": min, "lower quartile": lower_quartile}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slices", type=int, default=200)
    parser.add_argument("--requests", type=int, default=2000, help="of one slice")
    parser.add_argument("--in-flight", type=int, default=10, help="requests on the way")
    options = parser.parse_args()
    rounds = [measure(options.slices, options.requests, options.in_flight) for _ in range(options.rounds)]
    for figure, of in FIGURES.items():
        print(figure)
        plain = [of(found[Ottla.name]) for found in rounds]
        for kind in KINDS:
            values = [of(found[kind.name]) for found in rounds]
            shares = [one / other - 1 for one, other in zip(values, plain, strict=True)]
            each = ", ".join(f"{one:.2f} ({share:+.1%})" for one, share in zip(values, shares, strict=True))
            median = statistics.median(values)
            print(f"  {kind.name:28} {median:6.2f} us a request {statistics.median(shares):+6.1%}   rounds: {each}")


if __name__ == "__main__":
    main()
