"""A Prometheus as a process, and what it answers."""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ottla.cluster.ports import free_ports
from support.deadlines import DEADLINE_S
from support.polling import until_blocking


class Prometheus(NamedTuple):
    """A running Prometheus."""

    url: str

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API. Raises AssertionError with Prometheus's message for an error."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {json.load(error).get('error')}") from None

    def values(self, expression: str) -> list[float]:
        """The value of every series that an expression has now."""
        return [float(one["value"][1]) for one in self.get("query", query=expression)["result"]]


@contextlib.contextmanager
def running_prometheus(program: str, config: Path, folder: Path) -> Iterator[Prometheus]:
    """Run a Prometheus with this configuration; its data and its log are in the folder."""
    (port,) = free_ports(1)
    log = folder / "prometheus.log"
    command = [program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    with log.open("w") as out:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=out, stderr=out)
    prometheus = Prometheus(f"http://127.0.0.1:{port}")

    def is_ready() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{prometheus.url}/-/ready", timeout=DEADLINE_S):
                return True
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            pass  # it does not listen yet
        return False

    try:
        until_blocking(is_ready, "Prometheus is ready")
        yield prometheus
    finally:
        process.kill()
        process.wait(DEADLINE_S)
