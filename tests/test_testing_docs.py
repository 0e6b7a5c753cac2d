"""The pages about tests say what is so: their tests pass, their scripts print what stands there, their links exist."""

import ast
import re

import pytest

from ottla.testing import async_assertions
from support.broker import ROOT
from support.doc_scripts import dead_links, run_script, run_tests

PAGES = ("docs/testing.md", "docs/testing-migration.md")
PRINTED = {
    "min.insync.replicas": "[1, 2, 3]\n",
    "wait_for_no_lag": "1\nnot within 1 s: group billing has no lag. Last seen: ",
    "AdminClient": "1\n",
    'version="0.11"': "Produce version 3\n",
    "blackhole": "['NOT_LEADER_OR_FOLLOWER', 'NOT_LEADER_OR_FOLLOWER', 'NONE']\n1 message waits\n0 messages wait\n",
    "SERVICE": "127.0.0.1\n",
}
"""What the scripts print, by a word that is only in this script."""


def blocks(language):
    found = [
        pytest.param(found[1], id=f"{page} line {text[: found.start()].count(chr(10)) + 1}")
        for page in PAGES
        for text in [(ROOT / page).read_text()]
        for found in re.finditer(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    ]
    assert found
    return found


@pytest.mark.parametrize("body", blocks("python"))
def test_tests_pass_and_scripts_print_what_stands_there(body, tmp_path):
    if "def test_" in body:
        run_tests(body, tmp_path)
    else:
        printed = run_script(body, "not used", tmp_path)
        (expected,) = (text for word, text in PRINTED.items() if word in body)
        assert printed.startswith(expected)


@pytest.mark.parametrize("body", blocks("py"))
def test_what_others_need_is_at_least_python(body):
    ast.parse(body)


def test_every_assertion_is_in_the_table():
    text = (ROOT / "docs" / "testing.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) >= set(async_assertions.__all__)


@pytest.mark.parametrize("page", PAGES)
def test_links_have_existing_targets(page):
    assert dead_links(ROOT / page) == []
