"""Mutation testing, `make mutants`: a sample of the mutants that cosmic-ray makes of storage/, replication/, and what
of the coordinators and the controller does no I/O. For each of them, the tests that reach the changed line are run.

One process of cosmic-ray for each of --processes clones of the commit that is checked out. The seed and the code
determine the sample. Not in it: what tests have no reason to see (log messages, annotations, `__repr__`), `is` in place
of `==`, and of the mutants of one kind at one place all but one.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

SOURCES = {
    "storage": ["storage/**/*.py"],
    "replication": ["replication/*.py"],
    "broker/coordinator": [
        "broker/coordinator/classic/*.py",
        "broker/coordinator/consumer/[!g]*.py",
        "broker/coordinator/consumer/group.py",
        "broker/coordinator/group_re*.py",
        "broker/coordinator/offsets.py",
        "broker/coordinator/transactions/records.py",
        "broker/coordinator/transactions/transaction.py",
    ],
    "broker/controller": [
        "broker/controller/a*.py",
        "broker/controller/context.py",
        "broker/controller/leader_election.py",
        "broker/controller/requests.py",
        "broker/controller/stopped_replicas.py",
    ],
}
"""What is mutated; of each package as many mutants as its share of the lines."""

TESTS = {
    "storage": ["tests/storage", "tests/broker/settings/test_config", "tests/broker/network/test_direct_socket.py"],
    "replication": [
        "tests/replication",
        "tests/broker/controller/test_requests.py",
        "tests/broker/settings/test_config",
        "tests/broker/test_alter_replica_log_dirs.py",
        "tests/broker/test_disk_full.py",
        "tests/broker/test_fetch.py",
        "tests/broker/test_log_dir_moves.py",
        "tests/broker/test_produce.py",
        "tests/broker/test_setting_effects_moves.py",
        "tests/broker/test_setting_effects_replication.py",
    ],
    "broker/coordinator": [
        "tests/broker/coordinator",
        "tests/broker/test_consumer_groups.py",
        "tests/broker/test_groups.py",
        "tests/broker/test_offsets.py",
        "tests/broker/test_transactions.py",
    ],
    "broker/controller": ["tests/broker/controller", "tests/broker/test_controller_requests.py"],
}
"""How the names of the tests of a package begin."""

LEFT_OUT = (
    "tests/broker/settings/test_configs.py",
    "tests/replication/test_live_replication.py",
    "tests/storage/test_disk_full.py::test_at_whatever_byte_the_disk_is_full",
    "tests/storage/log/test_power_cut.py::test_a_cut_behind_every_operation[",
)
"""Tests that take long."""

PYTEST = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
REACHED = "reached.json"
IMPORT = -1
SLOWER, GRACE_S = 8, 40
"""A mutant has as many times the seconds that its tests take without it, and these on top."""
BY_IDENTITY = re.compile(r"Comparison.*_(Eq|NotEq|Lt|LtE|Gt|GtE)_Is(Not)?$")
"""`is` in place of another comparison: of small numbers it says the same."""
SURVIVED, KILLED, TIMEOUT = "survived", "killed", "timeout"
OUTCOME = re.compile(f"^({SURVIVED}|{KILLED}|{TIMEOUT}.*)$", flags=re.MULTILINE)
"""The last line that `test` prints. There is none where it has failed itself, or cosmic-ray cannot make the mutant."""
LIMITS = {resource.RLIMIT_AS: 16 << 30, resource.RLIMIT_FSIZE: 4 << 30}
"""A loop without an end fills neither memory nor disk."""


def matching(root: Path, pattern: str) -> list[str]:
    """Return the paths below `root` that match a pattern, relative to `root`. Raises ValueError if there are none."""
    found = sorted(str(path.relative_to(root)) for path in root.glob(pattern))
    if not found:
        raise ValueError(f"no file matches {pattern!r}")
    return found


def sources(root: Path) -> dict[str, str]:
    """Return the package of each file that is mutated."""
    found = {path: package for package, globs in SOURCES.items() for glob in globs for path in matching(root, glob)}
    return dict(sorted(found.items()))


def test_files(root: Path, package: str) -> set[str]:
    """Return the files and folders with the tests of a package."""
    return {path for name in TESTS[package] for path in matching(root, f"{name}*")}


def measure(work: Path) -> int:
    """Run all tests once: which of them reach which line, and how long they take. The exit code is pytest's."""
    import coverage
    import pytest

    seconds: dict[str, float] = defaultdict(float)
    cover = coverage.Coverage(data_file=None, config_file=False, include=list(sources(Path.cwd())))

    class Contexts:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
            cover.switch_context(item.nodeid)
            result = yield
            cover.switch_context("")
            return result

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            seconds[report.nodeid] += report.duration

    cover.start()
    files = set[str]().union(*(test_files(Path.cwd(), package) for package in TESTS))
    code = pytest.main([*PYTEST, *sorted(files), *(f"--deselect={name}" for name in LEFT_OUT)], plugins=[Contexts()])
    cover.stop()
    data = cover.get_data()
    numbers = {name: number for number, name in enumerate(seconds)} | {"": IMPORT}
    lines = {
        str(Path(file).relative_to(Path.cwd())): {
            line: [numbers[name] for name in contexts] for line, contexts in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    (work / REACHED).write_text(json.dumps({"seconds": seconds, "lines": lines}))
    return int(code)


def tests_of(line: int, code: str, lines: dict[str, list[int]]) -> set[int]:
    """The tests that reach a line in this process; none where an import does, too: any may show what comes of that."""
    reached = {int(number): set(tests) for number, tests in lines.items()}
    around = [(extent, run) for extent, run in map(extents, ast.walk(ast.parse(code))) if line in extent]
    _, run = max(around, key=lambda both: both[0].start, default=(range(0), range(0)))
    tests = set[int]().union(*(reached.get(number, set()) for number in run))
    return set() if IMPORT in tests else tests


def extents(node: ast.AST) -> tuple[range, range]:
    """The lines of a statement, without the statements within it, and those that run when it does.

    Of a function all lines, with its decorators, and those of its body.
    """
    if not isinstance(node, ast.stmt):
        return range(0), range(0)
    assert node.end_lineno is not None
    all_lines = range(node.lineno, node.end_lineno + 1)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        start = min((part.lineno for part in node.decorator_list), default=node.lineno)
        return range(start, all_lines.stop), range(node.body[0].lineno, all_lines.stop)
    if isinstance(node, ast.ClassDef | ast.Try) or not hasattr(node, "body"):
        start = min((part.lineno for part in getattr(node, "decorator_list", [])), default=node.lineno)
        return range(start, all_lines.stop), all_lines
    header = range(node.lineno, node.body[0].lineno)
    return header, header


def test(work: Path) -> int:
    """Run the tests that reach the line which differs from the commit: 0 when they pass.

    A run that takes too long is repeated: it may have been the machine.
    """
    diff = subprocess.run(["git", "diff", "-U0"], check=True, capture_output=True, text=True).stdout
    [file] = re.findall(r"^\+\+\+ b/(.*)$", diff, flags=re.MULTILINE)
    [(first, changed)] = re.findall(r"^@@ -(\d+).*\n((?:-.*\n)+)", diff, flags=re.MULTILINE)
    line = int(first) + next(at for at, text in enumerate(changed.splitlines()) if text != "-")
    known = json.loads((work / REACHED).read_text())
    text = subprocess.run(["git", "show", f"HEAD:{file}"], check=True, capture_output=True, text=True).stdout
    names, seconds = zip(*known["seconds"].items(), strict=True)
    own = tuple(TESTS[sources(Path.cwd())[file]])
    ours = {number for number, name in enumerate(names) if name.startswith(own)}
    tests = sorted(
        tests_of(line, text, known["lines"].get(file, {})) & ours or ours, key=lambda number: seconds[number]
    )
    limit = GRACE_S + SLOWER * sum(seconds[number] for number in tests)
    listed = Path(os.environ["TMPDIR"]) / "tests.txt"
    listed.write_text("\n".join(names[number] for number in tests))
    for name, most in LIMITS.items():
        resource.setrlimit(name, (most, most))
    # Bytecode that names the hash of its source (see `clone`) is never that of another mutant, and saves a second.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-x", *PYTEST, f"@{listed}"], start_new_session=True, env=variables
        )
        try:
            code = process.wait(limit)
            print("\n" + (SURVIVED if code == 0 else KILLED))
            return code
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    print(f"\n{TIMEOUT} of {limit:.0f} s, twice")
    return 1


def unseen(code: str) -> Iterator[ast.AST]:
    """What tests have no reason to see: annotations, type variables, log messages, `__repr__`, imports for mypy."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.arg(annotation=ast.expr() as part) | ast.AnnAssign(annotation=part):
                yield part
            case ast.FunctionDef(name="__repr__") | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield node
            case ast.Call(func=ast.Attribute(value=ast.Name(id="logger")) | ast.Name(id="TypeVar")):
                yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns


def sample(items: list[Any], count: int, seed: int) -> list[Any]:
    """Work items of cosmic-ray, as many of each package as its share of the lines: those with the smallest hashes.

    The hash is of the seed and the changed line's text, so that a mutant stays in the sample while others come and go.
    """
    packages = sources(ROOT)
    code = {file: (ROOT / file).read_text() for file in packages}
    lines = {file: text.splitlines() for file, text in code.items()}
    hidden = {
        file: [((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)) for node in unseen(text)]  # type: ignore[attr-defined]
        for file, text in code.items()
    }
    places: dict[str, dict[tuple[Any, ...], list[Any]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        [mutation] = item.mutations
        file, at = str(mutation.module_path), tuple(mutation.start_pos)
        if BY_IDENTITY.search(mutation.operator_name) or any(begin <= at < end for begin, end in hidden[file]):
            continue
        kind = mutation.operator_name.split("_")[0]
        places[packages[file]][file, at, kind].append(item)
    size = Counter[str]()
    for file, package in packages.items():
        size[package] += len(lines[file])
    chosen, seen = [], Counter[str]()
    for package in SOURCES:
        ranked = []
        for (file, (line, _), kind), here in sorted(places[package].items(), key=itemgetter(0)):
            text = f"{seed} {file} {kind} {lines[file][line - 1].strip()}"
            rank = hashlib.sha256(f"{text} {seen[text]}".encode()).digest()
            seen[text] += 1
            by_name = sorted(here, key=lambda item: (item.mutations[0].operator_name, item.mutations[0].occurrence))
            ranked.append((rank, by_name[rank[-1] % len(by_name)]))
        ranked.sort(key=itemgetter(0))
        chosen += [item for _, item in ranked[: round(count * size[package] / size.total())]]
    return chosen


def clone(work: Path, number: int) -> Path:
    """The commit that is checked out, with the data recorded from Kafka beside it."""
    place = work / str(number)
    place.mkdir(parents=True)
    if (ROOT.parent / "shared").exists():
        (place / "shared").symlink_to(ROOT.parent / "shared")
    checkout = place / "checkout"
    subprocess.run(["git", "clone", "-q", "--shared", ROOT, checkout], check=True)
    compile_all = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
    subprocess.run([*compile_all, *{Path(file).parts[0] for file in sources(ROOT)}], cwd=checkout, check=True)
    return checkout


def environment(checkout: Path, work: Path) -> dict[str, str]:
    """Of the processes of a clone: they import its files, and none of ours."""
    temporary = checkout.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    path = f"{checkout}{os.pathsep}{checkout / 'tests'}"
    return os.environ | {"PYTHONPATH": path, "TMPDIR": str(temporary), "OTTLA_MUTANTS": str(work)}


def run(work: Path, count: int, seed: int, processes: int) -> int:
    """Draw the sample, test it, say what survived. The exit code is 1 when less than 85 % are killed."""
    from cosmic_ray.work_db import use_db

    import support.deadlines  # noqa: F401 - the pace of the machine is measured once, for all processes

    shutil.rmtree(work, ignore_errors=True)
    checkouts = [clone(work, number) for number in range(processes)]
    here = shlex.quote(sys.executable)
    first = environment(checkouts[0], work)
    subprocess.run([sys.executable, "-m", "support.mutants", "measure"], cwd=checkouts[0], env=first, check=True)
    (work / "config.toml").write_text(
        f"[cosmic-ray]\nmodule-path = {json.dumps(list(sources(ROOT)))}\ntimeout = 7200.0\nexcluded-modules = []\n"
        f'test-command = "{here} -m support.mutants test"\n[cosmic-ray.distributor]\nname = "local"\n'
    )
    tool = str(Path(sys.executable).parent / "cosmic-ray")
    session = work / "all.sqlite"
    subprocess.run([tool, "init", work / "config.toml", session], cwd=checkouts[0], check=True)
    with use_db(session) as every:
        chosen = sample(list(every.work_items), count, seed)
    sessions = [work / f"{number}.sqlite" for number in range(processes)]
    running = []
    for number, (checkout, part) in enumerate(zip(checkouts, sessions, strict=True)):
        with use_db(part) as database:
            database.add_work_items(chosen[number::processes])
        command = [tool, "exec", work / "config.toml", part]
        running.append(subprocess.Popen(command, cwd=checkout, env=environment(checkout, work)))
    while any(process.poll() is None for process in running):
        time.sleep(60)
        report(sessions, with_survivors=False)
    return report(sessions, with_survivors=True)


def report(sessions: list[Path], *, with_survivors: bool) -> int:
    """Say what has become of the mutants so far."""
    from cosmic_ray.work_db import use_db

    packages = sources(ROOT)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for session in sessions:
        with use_db(session) as database:
            for item, result in database.completed_work_items:
                package = packages[str(item.mutations[0].module_path)]
                told = OUTCOME.findall(result.output or "")
                kind = told[-1].split()[0] if told else "not tested"
                counts[package][kind] += 1
                if with_survivors and kind not in (KILLED, TIMEOUT):
                    print(f"\n{kind}: {item.mutations[0].operator_name}\n{result.diff}")
    total = sum(counts.values(), Counter[str]())
    for package, counted in [*sorted(counts.items()), ("all", total)]:
        share = 100 * (counted[KILLED] + counted[TIMEOUT]) / max(counted.total(), 1)
        print(f"{package:20} {counted.total():5} mutants, {share:5.1f} % killed: {dict(counted)}", flush=True)
    return int(total[KILLED] + total[TIMEOUT] < 0.85 * total.total())


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", nargs="?", default="run", choices=["run", "measure", "test"])
    parser.add_argument("--count", type=int, default=540)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path(os.environ.get("OTTLA_MUTANTS", ROOT / "build" / "mutants")))
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    match arguments.command:
        case "measure":
            return measure(work)
        case "test":
            return test(work)
    return run(work, arguments.count, arguments.seed, arguments.processes)


if __name__ == "__main__":
    sys.exit(main())
