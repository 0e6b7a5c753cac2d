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
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import compaction, log_cases, storage_report
from benchmarks.run import RESULTS, Load, environment, medians
from benchmarks.server import ROOT, Ottla, Server, directory

Figures = dict[str, Any]

# full, quick
LOG_BYTES = (2_000_000_000, 200_000_000)
KEYED_BYTES = (1_000_000_000, 100_000_000)
FETCH_BYTES = (500_000_000, 50_000_000)
LATENCY_MESSAGES = (10_000, 2_000)
ROUNDS = (3, 1)

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
    print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
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
        print(f"{time.strftime('%H:%M:%S')} compaction", file=sys.stderr, flush=True)
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


CASES: dict[str, Callable[[Path, argparse.Namespace], Iterator[tuple[str, Figures]]]] = {
    "starts": starts,
    "segments": many_segments,
    "compaction": compactions,
    "sendfile": sending,
    "latency-compaction": latency_while_compacting,
    "latency-recovery": latency_beside_recovery,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of little data: does it work at all?")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--directory", type=Path, help="where files go (default: memory, where there is enough)")
    options = parser.parse_args()
    choice = 1 if options.quick else 0
    options.rounds = options.rounds or ROUNDS[choice]
    options.log_bytes, options.keyed_bytes = LOG_BYTES[choice], KEYED_BYTES[choice]
    options.fetch_bytes, options.messages = FETCH_BYTES[choice], LATENCY_MESSAGES[choice]
    found: dict[str, list[Figures]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-storage-", dir=options.directory or directory()) as base:
        for case in options.cases:
            for name, figures in CASES[case](Path(base), options):
                found.setdefault(name, []).append(figures)
    cases = {name: medians(rounds) for name, rounds in found.items()}
    text = storage_report.table(cases)
    print(text)
    if not options.quick and options.cases == list(CASES):
        results = {"environment": environment(), "cases": cases, "rounds": found}
        (RESULTS / "storage.json").write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "storage.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
