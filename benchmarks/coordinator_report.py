"""Turns the results of benchmarks/coordinators.py into tables in Markdown."""

from __future__ import annotations

from benchmarks.report import Results, heading, row


def table(cases: Results) -> str:
    sections = (_rebalances(cases), _commits(cases), _loading(cases), _transactions(cases))
    return "\n".join(line for section in sections for line in section).lstrip()


def _of(cases: Results, kind: str) -> list[tuple[str, Results]]:
    return [(name.removeprefix(f"{kind} "), one) for name, one in cases.items() if name.startswith(f"{kind} ")]


def _rebalances(cases: Results) -> list[str]:
    return [
        *_rebalances_of(cases, "rebalance", "Rebalance", "all join again and sync"),
        *_rebalances_of(
            cases, "consumer rebalance", "Rebalance (KIP-848)", "one of them leaves and joins again, one partition each"
        ),
    ]


def _rebalances_of(cases: Results, kind: str, title: str, what: str) -> list[str]:
    rows = []
    for members, one in _of(cases, kind):
        cpu_ms = one["cpu_s"] / one["rebalances"] * 1000
        cells = [f"{one['seconds'] * 1000:.1f}", f"{one['slowest_s'] * 1000:.1f}", f"{cpu_ms:.1f}"]
        rows.append(row([f"{members} members", *cells]))
    return [*heading(title, [what, "median ms", "slowest ms", "ms CPU"]), *rows] if rows else []


def _commits(cases: Results) -> list[str]:
    rows = []
    for partitions, one in _of(cases, "commit"):
        cells = [
            f"{one['requests'] / one['seconds']:,.0f}",
            f"{one['commits'] / one['seconds']:,.0f}",
            f"{one['requests'] / one['cpu_s']:,.0f}",
            f"{one['commits'] / one['cpu_s']:,.0f}",
        ]
        rows.append(row([f"{partitions} partition{'s' if partitions != '1' else ''} a request", *cells]))
    columns = ["32 requests at a time", "requests/s", "commits/s", "requests/CPU-s", "commits/CPU-s"]
    return [*heading("Offset commits", columns), *rows] if rows else []


def _loading(cases: Results) -> list[str]:
    one = cases.get("loading")
    if one is None:
        return []
    cells = [
        f"{one['commits']:,.0f} commits of {one['offsets']:,.0f} partitions",
        f"{one['started_s'] + one['seconds']:.2f}",
        f"{one['total_cpu_s']:.2f}",
        f"{one['rss_bytes'] / 1e6:.0f}",
    ]
    columns = ["process start until all groups are answered", "s", "CPU s", "RSS MB"]
    return [*heading("Loading `__consumer_offsets`", columns), row(cells)]


def _transactions(cases: Results) -> list[str]:
    rows = []
    for records, one in _of(cases, "transaction"):
        cells = [
            f"{one['transactions'] / one['seconds']:,.0f}",
            f"{one['seconds'] / one['transactions'] * 1000:.2f}",
            f"{one['cpu_s'] / one['transactions'] * 1000:.2f}",
        ]
        rows.append(row([f"{records} record{'s' if records != '1' else ''} each", *cells]))
    columns = ["librdkafka, one after another", "transactions/s", "ms each", "ms CPU each"]
    return [*heading("Transactions", columns), *rows] if rows else []
