"""docs/spark.md says what is so: its snippets run in their order, its tables are those of the code."""

from __future__ import annotations

import re

import pytest

from client.consumer.reader import Reader
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from spark_connector import errors, kafka_options, option_table, sink_options
from spark_connector.schema import COLUMNS, HEADERS
from support.broker import ROOT, broker_process
from support.counts import full_only
from support.doc_scripts import dead_links

PATH = ROOT / "docs" / "spark.md"
TEXT = PATH.read_text()
SNIPPETS = [
    re.sub(r"^ {3}", "", body, flags=re.M) if indented else body
    for indented, body in re.findall(r"^( *)```python\n(.*?)```", TEXT, re.S | re.M)
]


def section(heading):
    return re.search(rf"\n##+ {heading}\n(.*?)(?=\n##|\Z)", TEXT, re.DOTALL)[1]


def rows(text):
    """The cells of all rows of tables, without their headings."""
    found = [line.strip().strip("|") for line in text.splitlines() if line.startswith("| `")]
    return [tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)) for line in found]


@full_only
async def test_snippets_run_in_their_order(spark, tmp_path, capfd):
    with broker_process(tmp_path / "data") as broker:
        servers = broker.bootstrap
        async with Producer(bootstrap_servers=servers) as producer:
            for number in range(1, 6):
                await producer.send("numbers", b"%d" % number)
        names = {}
        before = spark.sparkContext.getConf().get("spark.sql.python.filterPushdown.enabled")
        for snippet in SNIPPETS:
            body = (
                snippet.replace("127.0.0.1:9092", servers)
                .replace("9400", "0")
                .replace("awaitTermination(20)", "processAllAvailable()")
            )
            exec(compile(body, str(PATH), "exec"), names)
        shown = sum(progress["numInputRows"] for progress in names["query"].recentProgress)
        names["query"].stop()
        spark.streams.removeListener(names["listener"])
        names["listener"].close()
        spark.conf.set("spark.sql.python.filterPushdown.enabled", before)
        said = capfd.readouterr().out
        async with Reader(bootstrap_servers=servers, isolation_level="read_committed") as reader:
            reader.assign({TopicPartition("letters", 0): "beginning", TopicPartition("copies", 0): "beginning"})
            records = []
            while len(records) < 8:
                records += await reader.fetch()
    assert shown == 5
    assert said.splitlines()[-1] == "5"
    assert sorted(one.value for one in records if one.topic == "copies") == [b"1", b"2", b"3", b"4", b"5"]
    assert sorted(one.value for one in records if one.topic == "letters") == [b"letter 0", b"letter 1", b"letter 2"]
    assert names["moved"].isStreaming


def test_no_snippet_is_left_out():
    assert len(SNIPPETS) == TEXT.count("```python\n")


def test_options_of_the_source_are_those_of_the_code():
    expected = [(f"`{one.name}`", one.mode, one.default, one.meaning) for one in option_table.OPTIONS]
    assert rows(section("Options of the source")) == expected


def test_options_of_the_sink_are_those_of_the_code():
    expected = [(f"`{one.name}`", one.default, one.meaning) for one in sink_options.OPTIONS]
    assert rows(section("Options of the sink")) == expected


@pytest.mark.parametrize(
    ("heading", "settings"),
    [("Options of the source", kafka_options.CONSUMER), ("Options of the sink", kafka_options.PRODUCER)],
)
def test_settings_of_the_java_clients_are_those_of_the_code(heading, settings):
    listed = re.search(r"Those that have a meaning here:\n\n(.*?)\n\n", section(heading), re.DOTALL)[1]
    assert re.findall(r"`kafka\.([\w.]+)`", listed) == sorted(settings.translated)


def test_columns_are_those_of_the_code():
    named = [name for cells in rows(section("Reading")) for name in re.findall(r"`(\w+)`", cells[0])]
    assert named == [field.name for field in (*COLUMNS, HEADERS)]


def test_errors_that_are_named_exist():
    for name in set(re.findall(r"`(\w+Error)`", TEXT)):
        assert hasattr(errors, name), name


def test_links_have_existing_targets():
    assert dead_links(PATH) == []
