"""Sources before and after the packages are moved into `ottla`."""

import ast
from textwrap import dedent

import pytest

from build_backend.relocation import Relocation, RelocationError

MODULES = {
    *("ottla", "ottla.cli", "ottla.cluster.ports", "pyspark_ottla"),
    *("storage", "storage.errors", "storage.log", "storage.log.log", "storage.compaction.worker"),
    *("broker", "broker.broker", "client", "client.errors", "protocol.messages"),
}


@pytest.fixture
def relocation():
    return Relocation(MODULES, "ottla", ("ottla", "pyspark_ottla"))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from storage.log.log import Log", "from ottla.storage.log.log import Log"),
        ("from storage import log", "from ottla.storage import log"),
        ("from storage import log as l, errors", "from ottla.storage import log as l, errors"),
        ("from storage.errors import *", "from ottla.storage.errors import *"),
        ("import storage.log as x", "import ottla.storage.log as x"),
        ("import storage", "import ottla.storage as storage"),
        ("import storage.errors", "import ottla.storage.errors, ottla.storage as storage"),
        ("import os, storage.errors, sys", "import os, ottla.storage.errors, ottla.storage as storage, sys"),
        ("import storage as s, client", "import ottla.storage as s, ottla.client as client"),
        ("if x: import storage; y = 1", "if x: import ottla.storage as storage; y = 1"),
        ("from storage.log import (  # why\n    a,  # a\n)", "from ottla.storage.log import (  # why\n    a,  # a\n)"),
    ],
)
def test_imports(relocation, source, expected):
    assert relocation.rewrite(source, "x.py") == expected


@pytest.mark.parametrize(
    "source",
    [
        "from . import log",
        "from .storage import log",
        "from ..storage.log import Log",
        "from ottla.cli import main",
        "import ottla.cluster.ports",
        "import pyspark_ottla",
        "from storages import log",
        "from mine.storage import log",
        "import mine.storage",
        "storage = broker.storage.errors",
        "x['client.id'] = 'broker'",
        "x = 'storage.logs and broker.id, not-client.errors, /client.errors, my.storage.log'",
        "x = 'python -m storage_tools'",
        "x = import_module('json')",
        "x = import_module(f'{__package__}.log')",
        "x = run('-m', 'ottla', 'broker')",
        "x = 'a storage is a client of a broker'  # storage.errors says why",
    ],
)
def test_what_merely_looks_the_same_is_unchanged(relocation, source):
    assert relocation.rewrite(source, "x.py") == source


def test_imports_at_every_depth_with_comments_and_the_same_line_numbers(relocation):
    source = dedent('''\
        """Uses `storage.errors`."""

        from typing import TYPE_CHECKING  # a comment

        if TYPE_CHECKING:
            from storage.log.log import Log
        elif x:
            pass
        else:
            import client

        class A:
            """See client.errors.KafkaError, and `storage.log`; start it: python -m broker."""

            from broker import broker

            def f(self, log: "Log") -> "storage.errors":
                # storage.errors
                try:
                    import storage.errors  # slow
                except* OSError:
                    with x:
                        for y in z:
                            from client import errors
                async def g():
                    match x:
                        case 1:
                            from storage import log
                finally_ = lambda: storage.errors.X
    ''').replace(' -> "storage.errors"', "")
    changed = relocation.rewrite(source, "x.py")
    assert changed == (
        source.replace("`storage.errors`", "`ottla.storage.errors`")
        .replace("from storage", "from ottla.storage")
        .replace("import client", "import ottla.client as client")
        .replace(
            "client.errors.KafkaError, and `storage.log`", "ottla.client.errors.KafkaError, and `ottla.storage.log`"
        )
        .replace("-m broker", "-m ottla.broker")
        .replace("from broker", "from ottla.broker")
        .replace("import storage.errors", "import ottla.storage.errors, ottla.storage as storage")
        .replace("from client", "from ottla.client")
    )
    assert len(changed.splitlines()) == len(source.splitlines())
    ast.parse(changed)


@pytest.mark.parametrize(
    "source",
    [
        "x = 'storage.compaction.worker'",
        "x = ['python', '-m', 'broker']",
        "run(python, '-m', 'broker')",
        "x = 'usage: python -m broker'",
        "x = f'protocol.messages.{name}'",
        "x = import_module('client')",
        "x = importlib.util.find_spec('storage')",
        "x = __import__('storage')",
        "x = logging.getLogger('storage')",
        "x = import_module(f'client.{name}')",
        "def f(x: 'storage.errors.X'): pass",
    ],
)
def test_a_string_that_names_a_moved_module_fails_the_build(relocation, source):
    with pytest.raises(
        RelocationError, match=r"^x\.py:2: the string '.*' names a module that is ottla\.… in the wheel"
    ):
        relocation.rewrite(f"\n{source}\n", "x.py")


def test_strings_are_rewritten_for_tests(relocation):
    source = "x = 'storage.errors.X', f'client.errors.{name}', 'from storage.log import log', 'storage'"
    assert relocation.rewrite(source, "x.py", strings=True) == (
        "x = 'ottla.storage.errors.X', f'ottla.client.errors.{name}', 'from ottla.storage.log import log', 'storage'"
    )
