"""What the benchmarks of single parts have in common: their command line, rounds of cases, medians, results.

A case is a function that is given a directory and the options and yields (name, figures), several times for each name.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.run import RESULTS, environment, medians
from benchmarks.server import directory

ROUNDS = (3, 1)

Figures = dict[str, Any]
Case = Callable[[Path, argparse.Namespace], Iterator[tuple[str, Figures]]]


def run(
    part: str,
    description: str | None,
    cases: Mapping[str, Case],
    sizes: Mapping[str, tuple[int, int]],
    table: Callable[[dict[str, Figures]], str],
) -> None:
    """`python -m benchmarks.<part>`: prints the table, and writes it to results/ after a full run of all cases.

    sizes: what the options hold besides `rounds`, in a full and in a quick run.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{part}", description=description)
    parser.add_argument("--quick", action="store_true", help="one round of little data: does it work at all?")
    parser.add_argument("--cases", nargs="+", choices=list(cases), default=list(cases))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--directory", type=Path, help="where files go (default: memory, where there is enough)")
    options = parser.parse_args()
    choice = 1 if options.quick else 0
    options.rounds = options.rounds or ROUNDS[choice]
    for name, choices in sizes.items():
        setattr(options, name, choices[choice])
    found: dict[str, list[Figures]] = {}
    with tempfile.TemporaryDirectory(prefix=f"bench-{part}-", dir=options.directory or directory()) as base:
        for case in options.cases:
            for name, figures in cases[case](Path(base), options):
                print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
                found.setdefault(name, []).append(figures)
    middle = {name: medians(rounds) for name, rounds in found.items()}
    text = table(middle)
    print(text)
    if not options.quick and options.cases == list(cases):
        results = {"environment": environment(), "cases": middle, "rounds": found}
        (RESULTS / f"{part}.json").write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / f"{part}.md").write_text(text + "\n")
