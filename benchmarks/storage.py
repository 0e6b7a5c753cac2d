"""The log's benchmarks: `python -m benchmarks.storage [--quick]`; part of `make bench`.

Start (clean and after a crash), compaction, lookups in a log of many segments, sendfile beside pread, and what
compaction and another broker's recovery do to the latency of produce requests. Each case is a process of its own; the
table names medians of the rounds.
"""

from __future__ import annotations

import argparse
import errno
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import cases, compaction, log_cases, storage_report
from benchmarks.cases import Case, Figures
from benchmarks.run import Load
from benchmarks.server import ROOT, Ottla, Server

SIZES = {  # full, quick
    "log_bytes": (2_000_000_000, 200_000_000),
    "keyed_bytes": (1_000_000_000, 100_000_000),
    "fetch_bytes": (500_000_000, 50_000_000),
    "messages": (10_000, 2_000),
}

WITHOUT_SENDFILE = f"""
import runpy
from storage.file_system import FileSystem
def refuse(*_):
    raise OSError({errno.EINVAL}, "measured without it")
FileSystem.sendfile = staticmethod(refuse)
runpy.run_module("broker", run_name="__main__", alter_sys=True)
"""


class Pread(Ottla):
    """The broker where sendfile does not work: record ranges are read and written."""

    name = "pread"

    def command(self) -> list[str]:
        python, _module, _name, *rest = super().command()
        return [python, "-c", WITHOUT_SENDFILE, *rest]


class Compacting(Ottla):
    """A broker with a log to compact, which it begins at once; `is_cleaning` False is its twin that does not."""

    name = "compacting"
    is_cleaning = True

    def command(self) -> list[str]:
        settings = {"log.cleaner.enable": str(self.is_cleaning).lower(), "log.cleaner.backoff.ms": "100"}
        return [*super().command(), *(part for pair in settings.items() for part in ("--set", "=".join(pair)))]


class Resting(Compacting):
    name = "resting"
    is_cleaning = False


def log_case(name: str, path: Path, **options: int) -> Figures:
    arguments = [part for option, value in options.items() for part in (f"--{option}", str(value))]
    command = [sys.executable, "-m", "benchmarks.log_cases", name, str(path), *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


# -- cases: each yields (name, figures) ------------------------------------------------------------------------------


def starts(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    for name, batch in (("16 KB", 16 * 1024), ("1 MB", 1_000_000)):
        path = base / f"logs-{batch}"
        path.mkdir()
        log_case("write", path, bytes=options.log_bytes, batch=batch)
        for case, _ in itertools.product(("load", "recover", "recover-two"), range(options.rounds)):
            yield f"{case} {name}", log_case(case, path)
        shutil.rmtree(path)


def many_segments(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    for _ in range(options.rounds):
        path = base / "segments"
        path.mkdir()
        yield "lookups", log_case("lookups", path)
        shutil.rmtree(path)


def compactions(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    kinds = ((options.keyed_bytes, 4_000_000, 1000), (options.keyed_bytes // 4, 128_000_000, 100))
    for (size, dedupe, value_bytes), _ in itertools.product(kinds, range(options.rounds)):
        what = f"compact {value_bytes:,} B a value, map of {dedupe // 1_000_000} MB"
        yield what, compaction.measure(size, dedupe, base, value_bytes=value_bytes)


def sending(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """The same topics are consumed from both in turn."""
    for size, partitions, codec in ((100, 1, "none"), (1024, 1, "none"), (1024, 8, "none"), (1024, 8, "lz4")):
        case = {"topic": "t", "partitions": partitions, "size": size, "count": options.fetch_bytes // size}
        with Ottla(base) as ottla, Pread(base) as pread:
            for server in (ottla, pread):
                server.create_topic("t", partitions)
                Load(server, "produce", codec=codec, **case).run()
            for _, server in itertools.product(range(options.rounds + 1), (ottla, pread)):
                what = f"{size} B, {partitions} p, {codec}: {'sendfile' if server is ottla else 'pread'}"
                yield what, Load(server, "consume", **case).run()


def latency(server: Server, options: argparse.Namespace) -> Figures:
    return Load(server, "latency", topic="latency", count=options.messages).run()


def latency_while_compacting(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    for _, kind in itertools.product(range(options.rounds), (Resting, Compacting)):
        with kind(base) as server:
            server.create_topic("latency", 1)
            create_compacted(server)
            server.stop()
            shutil.rmtree(server.directory / "data" / "bench-0")
            log_case("write-keyed", server.directory / "data", bytes=options.keyed_bytes)
            server.start()
            yield f"latency, {kind.name}", latency(server, options)


def create_compacted(server: Server) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = NewTopic(log_cases.TOPIC, 1, 1, config={"cleanup.policy": "compact", "segment.bytes": "100000000"})
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([topic])[log_cases.TOPIC].result(30)


def latency_beside_recovery(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """Another broker of the same machine recovers its logs, again and again, for as long as it is measured."""
    path = base / "recovering"
    path.mkdir()
    log_case("write", path, bytes=options.log_bytes)
    again = f"while {sys.executable} -m benchmarks.log_cases recover {path}; do :; done"
    for _, beside in itertools.product(range(options.rounds), (False, True)):
        with Ottla(base) as server:
            server.create_topic("latency", 1)
            other = subprocess.Popen(["sh", "-c", again], cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
            if not beside:
                end(other)
            try:
                yield f"latency, {'beside a recovery' if beside else 'alone'}", latency(server, options)
            finally:
                end(other)
    shutil.rmtree(path)


def end(process: subprocess.Popen[Any]) -> None:
    import os
    import signal

    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


CASES: dict[str, Case] = {
    "starts": starts,
    "segments": many_segments,
    "compaction": compactions,
    "sendfile": sending,
    "latency-compaction": latency_while_compacting,
    "latency-recovery": latency_beside_recovery,
}


if __name__ == "__main__":
    cases.run("storage", __doc__, CASES, SIZES, storage_report.table)
