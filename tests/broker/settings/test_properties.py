"""The syntax of properties files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.settings.properties import format_properties, parse_properties, read_properties
from storage.setting import ConfigError


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\nb=2", {"a": "1", "b": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t1", {"a": "1"}),
        ("  a  =  1 2  ", {"a": "1 2  "}),
        ("a : = 1", {"a": "= 1"}),
        ("a==1", {"a": "=1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("# a=1\n! b=2\n   # c=3\n\n  \n", {}),
        ("a=1 # not a comment", {"a": "1 # not a comment"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1,\\\n   2,\\\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\n# goes on", {"a": "1# goes on"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\\\\\n2", {"a": "1\\2"}),
        ("a=1\\", {"a": "1"}),
        ("# comment \\\na=1", {"a": "1"}),
        ("a\\=b=1", {"a=b": "1"}),
        ("a\\ b\\:=1", {"a b:": "1"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u0041\\u00e9", {"a": "Aé"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("a=x\x0by\x85z", {"a": "x\x0by\x85z"}),
        ("", {}),
    ],
)
def test_syntax(text, properties):
    assert parse_properties(text) == properties


@pytest.mark.parametrize("escape", ["\\u12", "\\u12g4", "\\u", "\\u-123"])
def test_a_broken_escape_is_refused_with_its_line(escape):
    with pytest.raises(ConfigError, match=r"x, line 3: .*four hexadecimal digits"):
        parse_properties(f"a=1\n\nb={escape}", "x")


def test_files_are_utf_8_or_latin_1(tmp_path):
    path = tmp_path / "server.properties"
    path.write_bytes("a=é".encode())
    assert read_properties(path) == {"a": "é"}
    path.write_bytes("a=é".encode("latin-1"))
    assert read_properties(path) == {"a": "é"}


def test_a_missing_file_is_reported_in_one_line(tmp_path):
    with pytest.raises(ConfigError) as caught:
        read_properties(tmp_path / "none")
    assert str(caught.value) == f"{tmp_path / 'none'}: cannot be read (No such file or directory)"


SYNTAX = st.text(st.sampled_from("a1 \t\n\r\f\\=:#!u\u00e9\u4e2d"))


@given(st.dictionaries(SYNTAX.filter(bool), SYNTAX))
def test_properties_round_trip(properties):
    assert parse_properties(format_properties(properties)) == properties
