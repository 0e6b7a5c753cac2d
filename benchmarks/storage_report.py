"""Turns the results of benchmarks/storage.py into tables in Markdown."""

from __future__ import annotations

from benchmarks.report import Results, cpu_per_gb, heading, row

START_CASES = {"load": "clean start", "recover": "recovery", "recover-two": "recovery, 2 threads"}


def table(cases: Results) -> str:
    sections = (_starts(cases), _compaction(cases), _lookups(cases), _sending(cases), _latency(cases))
    return "\n".join(line for section in sections for line in section).lstrip()


def _starts(cases: Results) -> list[str]:
    rows = []
    for name, one in cases.items():
        case, _, batch = name.partition(" ")
        if case not in START_CASES:
            continue
        speed = f"{one['bytes'] / one['seconds'] / 1e6:.0f}" if case != "load" else "–"
        cells = [f"{one['bytes'] / 1e9:.1f}", f"{one['seconds']:.2f}", f"{one['cpu_s']:.2f}", speed]
        rows.append(row([f"{START_CASES[case]}, batches of {batch}", *cells]))
    return [*heading("Start with 64 partitions", ["what", "GB", "s", "CPU s", "MB/s"]), *rows] if rows else []


def _compaction(cases: Results) -> list[str]:
    rows = []
    for name, one in cases.items():
        if name.startswith("compact "):
            cells = [
                f"{one['log_mb'] / 1000:.2f}",
                f"{one['log_mb'] / one['seconds']:.0f}",
                f"{one['records_per_s']:,.0f}",
                f"{one['runs']:.0f}",
                f"{one['log_mb_after'] / one['log_mb']:.0%}",
                f"{one['child_rss_mb']:.0f} (≤ 150)",
            ]
            rows.append(row([name.removeprefix("compact "), *cells]))
    columns = ["ten versions of each key", "GB", "MB/s", "records/s", "runs", "left of it", "peak RSS MB"]
    return [*heading("Compaction by its own process", columns), *rows] if rows else []


def _lookups(cases: Results) -> list[str]:
    one = cases.get("lookups")
    if one is None:
        return []
    cells = [
        f"{one['segments']:,.0f} segments",
        f"{one['lookups'] / one['seconds']:,.0f}",
        f"{one['cpu_s'] / one['lookups'] * 1e6:.1f}",
        f"{one['descriptors']:.0f} (limit of the process: 1,024)",
    ]
    columns = ["log", "lookups/s", "µs CPU each", "open descriptors"]
    return [*heading("Reads at random offsets", columns), row(cells)]


def _sending(cases: Results) -> list[str]:
    rows = []
    for name, one in cases.items():
        case = name.removesuffix(": sendfile")
        if case != name:
            ours, pread = cpu_per_gb(one), cpu_per_gb(cases[f"{case}: pread"])
            rows.append(row([case, f"{ours:.3f}", f"{pread:.3f}", f"{ours / pread:.2f}"]))
    columns = ["consume, CPU-s/GB", "sendfile", "pread and write", "ratio"]
    return [*heading("Sendfile", columns), *rows] if rows else []


def _latency(cases: Results) -> list[str]:
    rows = [
        row([name.removeprefix("latency, "), f"{one['p50_ms']:.3f}", f"{one['p99_ms']:.3f}", f"{one['p999_ms']:.3f}"])
        for name, one in cases.items()
        if name.startswith("latency")
    ]
    columns = ["1,000/s, linger 0, acks 1", "p50 ms", "p99 ms", "p99.9 ms"]
    return [*heading("Produce latency meanwhile", columns), *rows] if rows else []
