"""Turns the results of benchmarks/clients.py into tables in Markdown, with each client's ratio to ours."""

from __future__ import annotations

from benchmarks.report import Results, heading, row

OTTLA = "ottla"


def table(cases: Results) -> str:
    lines: list[str] = []
    for direction in ("produce", "consume"):
        lines += _direction(cases, direction)
    return "\n".join(lines).lstrip()


def _direction(cases: Results, direction: str) -> list[str]:
    rows = []
    for name, one in cases.items():
        kind, size, client = name.split(" ", 2)
        if kind != direction:
            continue
        ours = cases[f"{kind} {size} {OTTLA}"]
        cells = [
            f"{size} B: {client}",
            f"{_rate(one):,.0f}",
            f"{_cost_us(one):.2f}",
            f"{_rate(ours) / _rate(one):.2f}",
            f"{_cost_us(one) / _cost_us(ours):.2f}",
        ]
        rows.append(row(cells))
    columns = ["clients", "records/s", "µs CPU a record", "ours: times the rate", "times the CPU of ours"]
    return [*heading(direction.capitalize(), columns), *rows] if rows else []


def _rate(one: Results) -> float:
    return float(one["records"] / one["seconds"])


def _cost_us(one: Results) -> float:
    return float(one["client_cpu_s"] / one["records"] * 1e6)
