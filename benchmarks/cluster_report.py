"""Turns the results of benchmarks/cluster.py into tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.report import Results, cpu_per_gb, heading, row


def table(cases: Results) -> str:
    sections = (_produce, _latency, _by_rate, _catching_up, _killed, _many, _leaders)
    return "\n".join(line for section in sections for line in section(cases)).lstrip()


def _produce(cases: Results) -> list[str]:
    columns = ["records of 1 KiB, acks all, three brokers", "MB/s", "CPU-s/GB (all brokers)"]
    rows = _by_replicas(
        cases, "produce", lambda one: [f"{one['bytes'] / one['seconds'] / 1e6:.0f}", f"{cpu_per_gb(one):.2f}"]
    )
    return [*heading("Replicated produce", columns), *rows] if rows else []


def _latency(cases: Results) -> list[str]:
    columns = ["1,000/s, linger 0, acks all", "p50 ms", "p99 ms"]
    rows = _by_replicas(cases, "latency", lambda one: [f"{one['p50_ms']:.2f}", f"{one['p99_ms']:.2f}"])
    return [*heading("Replicated produce, one message at a time", columns), *rows] if rows else []


def _by_rate(cases: Results) -> list[str]:
    columns = ["to three replicas, linger 0, acks all", "p50 ms", "p99 ms", "µs CPU a message (all brokers)"]
    rows = [
        row([name, f"{one['p50_ms']:.2f}", f"{one['p99_ms']:.2f}", f"{one['cpu_s'] / one['records'] * 1e6:.0f}"])
        for name, one in cases.items()
        if " at " in name
    ]
    return [*heading("Beside the floor of replication", columns), *rows] if rows else []


def _by_replicas(cases: Results, kind: str, cells: Callable[[Results], list[str]]) -> list[str]:
    return [
        row([f"{replicas} replica{'s' if replicas > 1 else ''}", *cells(cases[f"{kind} {replicas}"])])
        for replicas in (1, 3)
        if f"{kind} {replicas}" in cases
    ]


def _catching_up(cases: Results) -> list[str]:
    one = cases.get("catching up")
    if one is None:
        return []
    gb = one["bytes"] / 1e9
    cells = [
        f"{one['bytes'] / 1e6:.0f} MB",
        f"{one['bytes'] / one['seconds'] / 1e6:.0f}",
        f"{one['leader_cpu_s'] / gb:.2f}",
        f"{one['follower_cpu_s'] / gb:.2f}",
    ]
    columns = ["an empty follower, from its start until it is in sync", "MB/s", "leader CPU-s/GB", "follower CPU-s/GB"]
    return [*heading("Catching up", columns), row(cells)]


def _killed(cases: Results) -> list[str]:
    one = cases.get("killed leader")
    if one is None:
        return []
    columns = ["from SIGKILL of the leader to the next acknowledgement", "s"]
    timeout = f"zookeeper.session.timeout.ms={one['session_timeout_ms']:.0f}"
    return [*heading("Failover", columns), row([timeout, f"{one['seconds']:.2f}"])]


def _many(cases: Results) -> list[str]:
    one = cases.get("many partitions")
    if one is None:
        return []
    timeout = f"zookeeper.session.timeout.ms={one['session_timeout_ms']:.0f}"
    figures = {
        "created, until all are led": f"{one['created_s']:.2f} s",
        "restart of a broker, until all its replicas are in sync": (
            f"{one['started_s']:.2f} s, {one['started_cpu_s']:.2f} s CPU"
        ),
        "memory of the broker that leads all": f"{one['rss_bytes'] / 1e6:.0f} MB",
        "idle, one broker": f"{one['idle_cpu_per_s'] * 1000:.1f} ms CPU a second",
        "one busy partition among them, 100 records a second": (
            f"{one['busy_p50_ms']:.2f} ms (p50), {one['busy_cpu_s'] * 1000:.2f} ms CPU a record (both brokers)"
        ),
        f"SIGKILL of the broker that leads all, until all are led ({timeout})": (
            f"{one['failover_s']:.2f} s, {one['failover_cpu_s']:.2f} s CPU"
        ),
    }
    columns = [f"{one['partitions']:,.0f} partitions on two brokers", ""]
    return [*heading("Many partitions", columns), *(row([name, value]) for name, value in figures.items())]


def _leaders(cases: Results) -> list[str]:
    rows = []
    for killed, name in ((1, "the controller"), (2, "another broker")):
        one = cases.get(f"many leaders {killed}")
        if one is not None:
            leads = f"{name} leads {one['leaders']:,.0f} partitions"
            rows.append(row([leads, f"{one['seconds']:.2f}", f"{one['cpu_s']:.2f}"]))
    if not rows:
        return []
    columns = ["from the end of the killed broker's session until all are led", "s", "CPU s (the other two)"]
    return [*heading("Failover of many leaders", columns), *rows]
