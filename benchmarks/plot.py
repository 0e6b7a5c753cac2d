"""A plot of the throughput cases: CPU seconds a gigabyte, broker beside floor. matplotlib is optional."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.report import CONSUME_LIMIT, PRODUCE_LIMIT, cpu_per_gb

COLOURS = {"floor": "#b9b4a8", "ottla": "#2f6f8f"}


def draw(results: dict[str, Any], path: Path) -> None:
    try:
        import matplotlib as mpl
    except ImportError:
        print("benchmarks: no plot, since matplotlib is not installed (extra: demo)", file=sys.stderr)
        return
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for panel, kind, limit in zip(panels, ("produce", "consume"), (PRODUCE_LIMIT, CONSUME_LIMIT), strict=True):
        cases = {name: one for name, one in results["cases"].items() if name.startswith(kind + " ")}
        names = list(dict.fromkeys(name for one in cases.values() for name in one))
        height = 0.8 / max(len(names), 1)
        for index, name in enumerate(names):
            values = [cpu_per_gb(one[name]) if name in one else 0 for one in cases.values()]
            places = [row + index * height for row in range(len(cases))]
            bars = panel.barh(places, values, height, label=name, color=COLOURS.get(name))
            panel.bar_label(bars, fmt="%.2f", padding=2, fontsize=7)
        for row, one in enumerate(cases.values()):
            if "floor" in one:
                most = limit * cpu_per_gb(one["floor"])
                panel.plot([most, most], [row - height / 2, row + 0.8 - height / 2], color="#b3433a", linewidth=1)
        middle = (len(names) - 1) * height / 2
        labels = [name.removeprefix(kind + " ").replace("partitions", "p").replace("partition", "p") for name in cases]
        panel.set_yticks([row + middle for row in range(len(cases))], labels, fontsize=8)
        panel.invert_yaxis()
        panel.set_xlabel("server CPU seconds per GB of values")
        panel.set_title(f"{kind} (red: {limit} × floor)", fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
