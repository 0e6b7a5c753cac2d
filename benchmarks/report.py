"""Turns results into a table in Markdown, with the ratio to the floor and the limit that it is held to."""

from __future__ import annotations

from typing import Any

PRODUCE_LIMIT, CONSUME_LIMIT, SMALL_LIMIT, LATENCY_LIMIT = 1.6, 1.5, 2.0, 1.3
START_CPU_LIMIT_S, IDLE_RSS_LIMIT_MB = 0.5, 60

Results = dict[str, Any]


def cpu_per_gb(one: Results) -> float:
    return float(one["cpu_s"]) / (one["bytes"] / 1e9)


def table(results: Results) -> tuple[str, bool]:
    """(the table, whether every ratio that has a limit keeps it)"""
    lines: list[str] = []
    kept: list[bool] = []
    machine = results["environment"]
    lines.append(
        f"{machine['date']}, {machine['machine']}, Python {machine['python']}"
        f"{', uvloop' if machine['uvloop'] else ''}, librdkafka {machine['librdkafka']}, "
        f"at {machine['revision']}."
    )
    cases = results["cases"]
    for section in (_throughput, _small, _latency, _start):
        lines += section(cases, kept)
    return "\n".join(lines), all(kept)


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _ratio(value: float, base: float | None, limit: float, kept: list[bool]) -> str:
    if not base:
        return "–"
    kept.append(value / base <= limit)
    return f"{value / base:.2f}{'' if kept[-1] else ' **over**'} (≤ {limit})"


def heading(title: str, columns: list[str]) -> list[str]:
    return ["", f"**{title}**", "", row(columns), row(["---"] + ["---:"] * (len(columns) - 1))]


def _throughput(cases: Results, kept: list[bool]) -> list[str]:
    rows = []
    for case, servers in cases.items():
        if not case.startswith(("produce ", "consume ")):
            continue
        limit = PRODUCE_LIMIT if case.startswith("produce") else CONSUME_LIMIT
        floor = servers.get("floor")
        for name, one in servers.items():
            value = cpu_per_gb(one)
            rows.append(
                row(
                    [
                        f"{case}: {name}",
                        f"{value:.3f}",
                        f"{one['bytes'] / one['seconds'] / 1e6:.0f}",
                        f"{one['requests']:.0f}",
                        f"{one['rss_bytes'] / 1e6:.0f}",
                        "1" if name == "floor" else _ratio(value, floor and cpu_per_gb(floor), limit, kept),
                    ]
                )
            )
    columns = ["full speed, acks 1", "CPU-s/GB", "MB/s", "requests", "RSS MB", "CPU to floor"]
    return [*heading("Throughput (GB and MB of record values)", columns), *rows] if rows else []


def _small(cases: Results, kept: list[bool]) -> list[str]:
    servers = cases.get("small produce", {})
    floor = servers.get("floor")
    rows = []
    for name, one in servers.items():
        each = one["cpu_s"] / one["requests"] * 1e6
        base = floor and floor["cpu_s"] / floor["requests"] * 1e6
        rows.append(
            row(
                [
                    name,
                    f"{each:.1f}",
                    f"{1e6 / each:.0f}",
                    f"{one['requests'] / one['seconds']:.0f}",
                    "1" if name == "floor" else _ratio(each, base, SMALL_LIMIT, kept),
                ]
            )
        )
    columns = [
        "one record of 100 B a request",
        "µs CPU a request",
        "requests/CPU-s",
        "requests/s",
        "CPU to floor",
    ]
    return [*heading("Small produce requests", columns), *rows] if rows else []


def _latency(cases: Results, kept: list[bool]) -> list[str]:
    servers = cases.get("latency", {})
    mock = servers.get("mock")
    rows = []
    for name, one in servers.items():
        ratios = ["1", "1"]
        if name != "mock":
            # The floor is here for orientation: only the broker is held to the limit.
            judged = kept if name == "ottla" else []
            ratios = [_ratio(one[key], mock and mock[key], LATENCY_LIMIT, judged) for key in ("p50_ms", "p99_ms")]
        rows.append(row([name, *(f"{one[key]:.3f}" for key in ("p50_ms", "p99_ms", "p999_ms")), *ratios]))
    columns = ["1,000/s, linger 0, acks 1", "p50 ms", "p99 ms", "p99.9 ms", "p50 to mock", "p99 to mock"]
    return [*heading("Produce latency (call to delivery report)", columns), *rows] if rows else []


def _start(cases: Results, kept: list[bool]) -> list[str]:
    servers = cases.get("start", {})
    rows = []
    for name, one in servers.items():
        rss = one["rss_bytes"] / 1e6
        if name == "ottla":
            kept.append(one["cpu_s"] <= START_CPU_LIMIT_S)
            kept.append(rss <= IDLE_RSS_LIMIT_MB)
        idle = one["idle_cpu_per_s"] * 1000
        rows.append(row([name, f"{one['cpu_s']:.2f}", f"{one['seconds']:.2f}", f"{rss:.0f}", f"{idle:.1f}"]))
    limits = [
        f"CPU s (≤ {START_CPU_LIMIT_S})",
        "wall s",
        f"idle RSS MB (≤ {IDLE_RSS_LIMIT_MB})",
        "idle CPU ms/s",
    ]
    columns = ["start to first acknowledged message", *limits]
    return [*heading("Start and idle", columns), *rows] if rows else []
