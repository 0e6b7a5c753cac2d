"""Run the broker from a wheel on every Python of this machine, as users do without an installation.

    python -m support.try_wheel ottla-0.1.0-py3-none-any.whl

`uvx --from WHEEL ottla broker` installs the wheel and its dependencies into an environment of its own and starts a
broker; a client must reach it, and SIGTERM must stop it cleanly. `pipx run` must find the command, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from client.admin.admin import Admin
from ottla.cluster.ports import free_ports
from support.deadlines import DEADLINE_S

OLDEST = (3, 11)
START_S = 6 * DEADLINE_S
"""The dependencies are downloaded first, unless they are in uv's cache."""
_VERSION = "import sys; print(*sys.version_info[:2], sys.version_info.releaselevel)"


def pythons() -> dict[tuple[int, int], Path]:
    """Return one Python of each released version that Ottla supports: those on PATH, of pyenv and of uv."""
    names = [f"python3.{minor}" for minor in range(OLDEST[1], OLDEST[1] + 20)]
    candidates = [Path(sys.executable), *(Path(path) for name in names if (path := shutil.which(name)))]
    candidates += sorted((Path.home() / ".pyenv" / "versions").glob("*/bin/python"))
    candidates += sorted((Path.home() / ".local" / "share" / "uv" / "python").glob("*/bin/python3"))
    found: dict[tuple[int, int], Path] = {}
    for candidate in candidates:
        done = subprocess.run([candidate, "-c", _VERSION], capture_output=True, text=True, check=False)
        match = re.fullmatch(r"(\d+) (\d+) final\n", done.stdout)
        if match is not None and (version := (int(match[1]), int(match[2]))) >= OLDEST:
            found.setdefault(version, candidate)
    return dict(sorted(found.items()))


def uvx(*arguments: str) -> list[str]:
    """Return a command line of uvx: that of this environment, or the one on PATH."""
    uv = Path(sys.executable).parent / "uv"
    return [str(uv) if uv.exists() else shutil.which("uv") or "uv", "tool", "run", "--quiet", *arguments]


@contextlib.contextmanager
def running_broker(python: Path, wheel: Path, folder: Path) -> Iterator[str]:
    """Run a broker from the wheel; its address. It must end with the exit code 0."""
    (port,) = free_ports(1)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(folder / "data"),
        "ottla.console.listener": "",
    }
    options = [part for pair in settings.items() for part in ("--set", "=".join(pair))]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            uvx("--isolated", "--python", str(python), "--from", str(wheel), "ottla", "broker", *options),
            cwd=folder,  # not the checkout, whose packages would be imported instead
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield f"127.0.0.1:{port}"
        process.terminate()
        code = process.wait(DEADLINE_S)
        assert code == 0, f"the broker ended with {code}: {_end_of(folder / 'output')}"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _end_of(output: Path) -> str:
    return output.read_text(errors="replace")[-2000:]


async def cluster_id(address: str, output: Path) -> str:
    """Return what a broker tells of its cluster, once it is ready."""
    deadline = asyncio.get_running_loop().time() + START_S
    while True:
        try:
            async with Admin(bootstrap_servers=address) as admin:
                return (await admin.describe_cluster()).cluster_id or ""
        except Exception as error:
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"the broker is not ready: {error}: {_end_of(output)}") from error
            await asyncio.sleep(0.1)


def try_python(python: Path, wheel: Path) -> None:
    """Start a broker with a Python, reach it, and stop it. Raises AssertionError."""
    with tempfile.TemporaryDirectory(prefix="ottla-wheel-") as name:
        folder = Path(name)
        with running_broker(python, wheel, folder) as address:
            assert asyncio.run(cluster_id(address, folder / "output"))


def try_pipx(wheel: Path) -> str:
    """Return what `pipx run ottla --version` prints. uvx installs pipx if it is missing."""
    pipx = shutil.which("pipx")
    with tempfile.TemporaryDirectory(prefix="ottla-pipx-") as folder:
        done = subprocess.run(
            [*([pipx] if pipx else uvx("pipx")), "run", "--no-cache", "--spec", str(wheel), "ottla", "--version"],
            cwd=folder,
            env={**os.environ, "PIPX_HOME": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def main() -> None:
    """Try the wheel that the command line names."""
    wheel = Path(sys.argv[1]).resolve()
    found = pythons()
    assert found, "no Python from 3.11 on"
    for version, python in found.items():
        try_python(python, wheel)
        print(f"uvx ottla broker: Python {version[0]}.{version[1]} ({python})", flush=True)
    print(f"pipx run ottla: {try_pipx(wheel)}")


if __name__ == "__main__":
    main()
