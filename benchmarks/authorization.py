"""What ACLs and quotas cost: one small produce request, to a broker without them and with them.

    python -m benchmarks.authorization --rounds 5

Each round starts the brokers with an empty directory, one after the other, in the opposite order every second time. A
share compares two brokers of one round, and the median of the rounds' shares counts: the machine may do other work. The
topic's ACLs allow Write to the user of the load, so every request needs a decision: it is cached after the first one.
The quotas are of the user, for bytes and for time, and are not reached.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics

from benchmarks.run import Load
from benchmarks.server import Ottla
from client.admin.admin import Admin
from client.admin.quotas import QuotaEntity
from ottla.acls import AccessRule, AclBinding, Operation, PatternType, Permission, ResourcePattern, ResourceType

ACLS = 10_000
ANONYMOUS = "User:ANONYMOUS"
QUOTAS = {"producer_byte_rate": 1e12, "request_percentage": 1e6}


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


def measure(kind: type[Ottla], requests: int) -> float:
    """CPU of one request in microseconds."""
    with kind() as server:
        server.create_topic("small", 1)
        cpu_s = Load(server, "small", topic="small", count=requests).run()["cpu_s"]
    return float(cpu_s) / requests * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=100_000)
    options = parser.parse_args()
    found: dict[str, list[float]] = {kind.name: [] for kind in KINDS}
    for number in range(options.rounds):
        for kind in KINDS if number % 2 == 0 else KINDS[::-1]:
            found[kind.name].append(measure(kind, options.requests))
    plain = found[Ottla.name]
    for name, values in found.items():
        share = statistics.median(one / other - 1 for one, other in zip(values, plain, strict=True))
        each = ", ".join(f"{one:.2f}" for one in values)
        print(f"{name}: {statistics.median(values):.2f} us a request ({each}), {share:+.1%}")


if __name__ == "__main__":
    main()
