"""Templates of `ottla produce`."""

import asyncio
import json
import re
from random import Random

import pytest

from ottla.command_line.failure import CommandError
from ottla.records.template import Template, generate


def made(text, number=1, seed=1):
    return Template(text, "--template", Random(seed))(number).decode()


def test_placeholders():
    text = (
        '{"id": {n}, "user": "{uuid}", "age": {int:-1..9}, "price": {float:1..2.5}, "kind": "{choice:a|b c|}",'
        ' "name": "{text:12}", "at": "{time}", "ms": {ms}, "empty": {}}'
    )
    for number in range(1, 200):
        one = json.loads(made(text, number, seed=number))
        assert one["id"] == number
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", one["user"])
        assert -1 <= one["age"] <= 9
        assert 1 <= one["price"] <= 2.5
        assert one["kind"] in ("a", "b c", "")
        assert re.fullmatch("[a-z]{12}", one["name"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", one["at"])
        assert one["ms"] > 1_700_000_000_000


def test_a_seed_repeats_the_values():
    text = "{uuid} {int:0..1000000} {text:9} {float:0..1000} {choice:a|b|c|d}"
    assert made(text, seed=7) == made(text, seed=7) != made(text, seed=8)


@pytest.mark.parametrize(
    "text", ["{user}", "{n:3}", "{int}", "{int:9..1}", "{int:a}", "{float:1}", "{text:x}", "{uuid:4}"]
)
def test_what_is_no_placeholder(text):
    with pytest.raises(CommandError) as raised:
        made(f"a {text} b")
    assert str(raised.value).startswith(f"--template: {text} is not a placeholder such as {{n}} {{uuid}}")


def test_other_braces_are_text():
    assert made('{"a": {"b": {n}}} {} {N} { n } é') == '{"a": {"b": 1}} {} {N} { n } é'


async def test_records_are_sent_while_others_are_generated():
    turns = []
    asyncio.get_running_loop().call_soon(turns.append, "a turn of the event loop")
    blocks = [(lines, len(turns)) async for lines in generate(Template("{n}", "--template", Random(1)), 1001)]
    assert [int(line) for lines, _ in blocks for line in lines] == list(range(1, 1002))
    assert [count for _, count in blocks] == [0, 1, 1]
