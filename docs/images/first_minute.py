"""Draw docs/images/first-minute.svg: the commands of README's first `console` block, run against a new broker.

Run it in the development environment: python docs/images/first_minute.py
"""

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 92
PICTURE = ROOT / "docs" / "images" / "first-minute.svg"
MORE = "ottla topics describe greetings"
"""A command that is not in the README's block: its table shows more than words."""


def commands() -> list[str]:
    """Return the commands of README's first console block without the activation, and `MORE`."""
    block = re.search(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    return [line for line in re.findall(r"^\$ (.*)", block[1], re.M) if "activate" not in line] + [MORE]


def recorded() -> Iterator[tuple[str, str]]:
    """Run the commands; yield each with its output."""
    with tempfile.TemporaryDirectory() as directory:
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": directory, "ottla.console.listener": ""}
        arguments = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "ottla", "broker", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as broker:
            assert broker.stdout is not None
            started = next(filter(None, (re.search(r"127\.0\.0\.1:\d+", line) for line in broker.stdout)))
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            environment = os.environ | {
                "PATH": path,
                "OTTLA_BOOTSTRAP_SERVER": started[0],
                "COLUMNS": str(COLUMNS),
                "FORCE_COLOR": "1",
            }
            for one in commands():
                shell = ["bash", "-c", one]
                yield one, subprocess.run(shell, env=environment, capture_output=True, text=True, check=True).stdout
            broker.terminate()


def draw() -> None:
    """Write the picture."""
    console = Console(width=COLUMNS, record=True, file=io.StringIO())
    for command, output in recorded():
        console.print(Text("$ ", style="bold green") + Text(command, style="bold"))
        console.print(Text.from_ansi(output.rstrip("\n")) if output else "", end="\n" if output else "")
    PICTURE.write_text(console.export_svg(title="ottla", theme=DIMMED_MONOKAI, unique_id="first-minute") + "\n")


if __name__ == "__main__":
    draw()
