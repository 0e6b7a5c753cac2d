from __future__ import annotations

import pytest

from support.broker import broker_process
from support.spark import start_session
from support.spark_topics import Topics


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One Spark for all tests of a process: it takes seconds to start."""
    session = start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def topics(tmp_path_factory):
    """A broker for all tests of a process that do not harm it; each makes topics of its own."""
    folder = tmp_path_factory.mktemp("broker")
    # Records of these tests have times of years ago: retention would take them while Spark starts.
    with broker_process(folder / "log", offsets_topic_num_partitions="1", log_retention_ms="-1") as broker:
        yield Topics(broker)


@pytest.fixture
def read(spark, topics):
    """A batch query as a data frame. Names of options as keywords; those with a dot in a mapping."""

    def load(dotted=None, **options):
        return spark.read.format("ottla").options(**topics.options, **(dotted or {}), **options).load()

    return load


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A broker process for the tests of a module, whose topics get two partitions when they are first written to."""
    with broker_process(tmp_path_factory.mktemp("broker") / "log", num_partitions="2") as process:
        yield process
