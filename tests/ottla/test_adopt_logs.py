"""`ottla adopt-logs` on a directory that Kafka left: what it prints, once and again, and what it refuses."""

import pytest

from support.log_dirs import copy_log_directory


@pytest.fixture
def data(tmp_path):
    """Some of the partitions that Kafka left."""
    return copy_log_directory("broker-0", tmp_path / "data", "grp-0", "multi-segment-0")


def test_topics_are_adopted_once(ottla, data):
    first = ottla("adopt-logs", data, "--json").json
    assert [(each["topic"], each["partitions"], each["empty"], each["new"]) for each in first] == [
        ("grp", 1, 0, True),
        ("multi-segment", 1, 0, True),
    ]
    again = ottla("adopt-logs", data, "--json").json
    assert [each["new"] for each in again] == [False, False]
    assert [each["topic"] for each in again] == [each["topic"] for each in first]


def test_the_table_names_the_settings_of_new_topics(ottla, data):
    settings = {each["topic"]: each["settings"] for each in ottla("adopt-logs", data, "--json").json}
    fresh = copy_log_directory("broker-0", data.parent / "fresh", "grp-0", "multi-segment-0")
    header, *rows = ottla("adopt-logs", fresh).out.splitlines()
    assert header.split("  ")[0] == "topic"
    for row, (topic, named) in zip(rows, sorted(settings.items()), strict=True):
        assert row.split() == [topic, "1", "0", *(f"{name}={value}" for name, value in named.items())]
    assert all("known already" in row for row in ottla("adopt-logs", fresh).out.splitlines()[1:])


def test_a_directory_that_is_not_there_is_refused(ottla, tmp_path):
    done = ottla("adopt-logs", tmp_path / "none", code=1)
    assert f"no directory {tmp_path / 'none'}" in done.err
