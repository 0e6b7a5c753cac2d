"""The settings in which the broker processes of one machine differ, and the directories that are refused."""

import pytest

from broker.settings.config import BrokerConfig
from ottla.cluster.process_settings import check_directories, process_settings
from ottla.command_line.failure import CommandError


def of(count, **settings):
    named = {name.replace("_", "."): text for name, text in settings.items()}
    return process_settings(BrokerConfig.load(None, {"log.dirs": "/d", **named}), count, "machine")


def test_ids_ports_directories_and_the_rack():
    assert of(2, broker_id="4", log_dirs="/a,/b") == [
        {
            "broker.id": "4",
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "log.dirs": "/a/process-0,/b/process-0",
            "broker.rack": "machine",
            "ottla.console.listener": "127.0.0.1:8080",
        },
        {
            "broker.id": "5",
            "listeners": "PLAINTEXT://127.0.0.1:9093",
            "log.dirs": "/a/process-1,/b/process-1",
            "broker.rack": "machine",
            "ottla.console.listener": "127.0.0.1:8081",
        },
    ]


def test_a_generated_id_a_given_rack_and_no_console():
    for settings in of(2, broker_id="-1", broker_rack="east", ottla_console_listener=""):
        assert settings.keys() == {"listeners", "log.dirs", "broker.rack"}
        assert settings["broker.rack"] == "east"


def test_both_names_of_the_id():
    assert [(one["broker.id"], one["node.id"]) for one in of(2, node_id="3")] == [("3", "3"), ("4", "4")]


def test_advertised_listeners_and_a_console_on_an_ipv6_address():
    given = {
        "listeners": "PLAINTEXT://:9092",
        "advertised_listeners": "PLAINTEXT://[::1]:19092",
        "ottla_console_listener": "http://[::1]:9443",
    }
    second = of(2, **given)[1]
    assert second["listeners"] == "PLAINTEXT://:9093"
    assert second["advertised.listeners"] == "PLAINTEXT://[::1]:19093"
    assert second["ottla.console.listener"] == "[::1]:9444"


@pytest.mark.parametrize(
    ("listeners", "console", "expected"),
    [
        ("A://:9092,B://:9093", 8080, ["A://:9094,B://:9095", "A://:9096,B://:9097"]),
        ("A://:9092,B://:9094", 8080, ["A://:9093,B://:9095"]),
        ("A://:9092,B://:9094", 8080, ["A://:9095,B://:9097", "A://:9098,B://:9100"]),
        ("A://:9092", 9093, ["A://:9094", "A://:9096"]),
        ("A://:0,B://:9093", 0, ["A://:0,B://:9094", "A://:0,B://:9095"]),
    ],
    ids=["neighbours", "two processes", "three processes", "console", "any"],
)
def test_no_two_processes_share_a_port(listeners, console, expected):
    given = {
        "listeners": listeners,
        "ottla_console_listener": f"127.0.0.1:{console}",
        "listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT",
        "inter_broker_listener_name": "A",
    }
    assert [one["listeners"] for one in of(1 + len(expected), **given)] == [listeners, *expected]


def test_a_port_that_does_not_exist_is_refused():
    with pytest.raises(CommandError, match="--processes 3 needs port 65536; the highest one is 65535"):
        of(3, listeners="PLAINTEXT://127.0.0.1:65534")


def test_directories_with_data_that_no_process_would_read(tmp_path):
    config = BrokerConfig.load(None, {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"})
    check_directories(config, 1)
    (tmp_path / "b" / "process-1").mkdir(parents=True)
    (tmp_path / "b" / "process-x").mkdir()
    check_directories(config, 1)  # empty
    (tmp_path / "b" / "process-1" / "meta.properties").touch()
    check_directories(config, 2)
    with pytest.raises(CommandError, match=r"b/process-1 has the data of a broker that --processes 1 does not start"):
        check_directories(config, 1)
    (tmp_path / "b" / "meta.properties").touch()
    with pytest.raises(CommandError, match=r"b has the data of one broker process: --processes needs another"):
        check_directories(config, 2)
