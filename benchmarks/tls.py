"""What TLS costs: `python -m benchmarks.tls [--quick]`, beside plain text and beside a bare asyncio server with `ssl`.

Produce and consume with values of 100 B and 1 KiB (one partition, no codec), and connections opened. In each round
the four servers take turns, in the opposite order every second time, each time a fresh process; CPU is the server's.
A ratio compares two servers of one round, and the table has the median of the rounds' ratios: on a machine that does
other work, times of different rounds cannot be compared.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import cases
from benchmarks.cases import Case, Figures
from benchmarks.report import cpu_per_gb, heading, row
from benchmarks.run import Load
from benchmarks.server import Floor, Ottla, Server
from security.tls.development import DevelopmentAuthority

LIMIT = 1.5
SIZES = {"bytes": (500_000_000, 100_000_000), "connections": (1_000, 100)}  # full, quick
VALUES = (100, 1024)


class TlsFloor(Floor):
    """The floor with Python's `ssl`."""

    name = "TLS floor"

    def command(self) -> list[str]:
        return [*super().command(), "--certificate", str(write_certificates(self))]


class TlsOttla(Ottla):
    """The broker with one listener, which is TLS."""

    name = "TLS ottla"

    def command(self) -> list[str]:
        settings = {
            "listeners": f"SSL://127.0.0.1:{self.port}",
            "security.inter.broker.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(write_certificates(self)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }
        return [*super().command(), *(part for pair in settings.items() for part in ("--set", "=".join(pair)))]


KINDS: tuple[type[Server], ...] = (Floor, Ottla, TlsFloor, TlsOttla)


def write_certificates(server: Server) -> Path:
    """Write key and certificates of a server; its clients trust the authority. Return the file."""
    authority = DevelopmentAuthority(days=1, now=datetime.datetime.now(datetime.UTC))
    own = authority.broker(["127.0.0.1"])
    server.authority = server.directory / "ca.pem"
    server.authority.write_text(authority.pair.chain)
    file = server.directory / "server.pem"
    file.write_text(own.key + own.chain)
    return file


def in_turns(base: Path, rounds: int, measure: Callable[[Server], dict[str, Figures]]) -> Iterator[tuple[str, Figures]]:
    """Measure all kinds of servers in each round; add to the figures of TLS what plain text and the floor cost."""
    for number in range(rounds):
        found = {}
        for kind in KINDS if number % 2 == 0 else KINDS[::-1]:
            with kind(base) as server:
                found[kind.name] = measure(server)
        for kind in KINDS:
            for case, figures in found[kind.name].items():
                for other in KINDS:
                    figures[f"to {other.name}"] = figures["cost"] / found[other.name][case]["cost"]
                yield f"{case}: {kind.name}", figures


def throughput(size: int) -> Case:
    """Return the case of values of this size."""

    def run(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
        def measure(server: Server) -> dict[str, Figures]:
            server.create_topic("tls", 1)
            load = {"topic": "tls", "size": size, "count": options.bytes // size}
            produced, consumed = (Load(server, command, **load).run() for command in ("produce", "consume"))
            for one in (produced, consumed):
                one["cost"] = cpu_per_gb(one)
            return {f"produce {size} B": produced, f"consume {size} B": consumed}

        yield from in_turns(base, options.rounds, measure)

    return run


def connections(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """Connections, each with one request."""

    def measure(server: Server) -> dict[str, Figures]:
        opened = Load(server, "connect", count=options.connections).run()
        opened["cost"] = opened["cpu_s"] / opened["connections"] * 1e6
        return {"connect": opened}

    yield from in_turns(base, options.rounds, measure)


CASES: dict[str, Case] = {**{f"{size}": throughput(size) for size in VALUES}, "connections": connections}


def table(found: dict[str, Figures]) -> str:
    """Return the tables in Markdown."""
    throughputs, opened = [], []
    for name, one in found.items():
        case, _, server = name.partition(": ")
        to_floor = _to_floor(case, server, one)
        if case == "connect":
            opened.append(row([server, f"{one['cost']:.0f}", to_floor]))
        else:
            speed = f"{one['bytes'] / one['seconds'] / 1e6:.0f}"
            throughputs.append(row([name, f"{one['cost']:.3f}", speed, to_floor]))
    lines = []
    if throughputs:
        lines += [*heading("Throughput", ["one partition, acks 1", "CPU-s/GB", "MB/s", "CPU to floor"]), *throughputs]
    if opened:
        lines += [*heading("Connections", ["opened, with one request", "µs CPU each", "CPU to floor"]), *opened]
    return "\n".join(lines).lstrip()


def _to_floor(case: str, server: str, one: Figures) -> str:
    if "ottla" not in server:
        return "1"
    if server == Ottla.name:
        return f"{one[f'to {Floor.name}']:.2f}"
    ratio = one[f"to {TlsFloor.name}"]
    if case == "connect":
        return f"{ratio:.2f}"
    return f"{ratio:.2f}{' **over**' if ratio > LIMIT else ''} (≤ {LIMIT})"


if __name__ == "__main__":
    cases.run("tls", __doc__, CASES, SIZES, table)
