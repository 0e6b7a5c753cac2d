"""What a reader sees of the registry: no secrets, and nothing about what it may not describe."""

import json

import pytest

from broker.inspection.znode_content import MAX_SHOWN, is_visible, shown_content
from support.reader_rights import SeesAllBut

SECRET = "c2VjcmV0"
RIGHTS = SeesAllBut("hidden")


def shown(path, value):
    found = shown_content(path, json.dumps(value).encode(), RIGHTS)
    return found.content, found.note


@pytest.mark.parametrize(
    ("path", "config", "kept"),
    [
        ("/config/users/alice", {"SCRAM-SHA-256": f"salt=x,stored_key={SECRET}", "producer_byte_rate": "1"}, 1),
        ("/config/users/alice/clients/app", {"anything": SECRET, "request_percentage": "1.5"}, 1),
        ("/config/ips/10.0.0.1", {"x": SECRET}, 0),
        ("/config/brokers/1", {"listener.name.a.ssl.keystore.password": SECRET, "log.retention.ms": "1"}, 1),
        ("/config/brokers/1", {"sasl.jaas.config": SECRET, "not.a.setting": SECRET}, 0),
        ("/config/topics/t", {"cleanup.policy": "compact", "not.a.setting": SECRET}, 1),
        ("/config/others/x", {"password": SECRET}, 0),
    ],
)
def test_values_that_may_be_secret_are_hidden(path, config, kept):
    content, note = shown(path, {"version": 1, "config": config})
    assert SECRET not in content
    assert "hidden" in note
    assert sum(value != "[hidden]" for value in json.loads(content)["config"].values()) == kept


def test_the_content_of_others_nodes_is_not_shown():
    assert shown("/hbase/master", {"a": SECRET}) == (None, "Only the content of Kafka's nodes is shown.")
    assert shown_content("/", SECRET.encode(), RIGHTS).content is None


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/topics/hidden",
        "/brokers/topics/hidden/partitions/0/state",
        "/config/topics/hidden",
        "/admin/delete_topics/hidden",
        "/consumers/hidden/ids",
        "/consumers/g/offsets/hidden/0",
        "/delegation_token/tokens/hidden",
    ],
)
def test_nodes_of_hidden_resources_are_hidden(path):
    assert not is_visible(path, RIGHTS)
    assert is_visible(path.replace("hidden", "seen"), RIGHTS)


def test_settings_need_the_right_to_describe_them():
    assert not is_visible("/config/users/alice", SeesAllBut("kafka-cluster"))


def test_hidden_topics_are_left_out_of_lists():
    partitions = [{"topic": "hidden", "partition": 0}, {"topic": "seen", "partition": 1}]
    content, note = shown("/admin/reassign_partitions", {"version": 1, "partitions": partitions})
    assert json.loads(content)["partitions"] == partitions[1:]
    assert "left out" in note
    content, _ = shown("/consumers/g/ids/c", {"subscription": {"hidden": 1, "seen": 1}})
    assert json.loads(content)["subscription"] == {"seen": 1}


@pytest.mark.parametrize(
    "value",
    [
        {"version": 2, "entity_path": "topics/hidden"},
        {"version": 1, "entity_type": "topics", "entity_name": "hidden"},
    ],
)
def test_notifications_about_hidden_topics_have_no_content(value):
    assert shown("/config/changes/config_change_0000000001", value)[0] is None


def test_a_notification_of_a_hidden_token_has_no_content():
    path = "/delegation_token/token_changes/token_change_0000000001"
    assert shown_content(path, b"hidden", RIGHTS).content is None
    assert shown_content(path, b"seen", RIGHTS).content == "seen"


def test_text_numbers_and_damage_are_shown_as_they_are():
    assert shown_content("/controller_epoch", b"12", RIGHTS).content == "12"
    assert shown_content("/cluster/id", b"{broken", RIGHTS).content == "{broken"
    assert shown_content("/cluster/id", b"\xff", RIGHTS).content == "\ufffd"


def test_long_content_is_cut():
    content, note = shown("/brokers/topics/t", {"partitions": {str(n): [1, 2, 3] for n in range(20_000)}})
    assert len(content) == MAX_SHOWN
    assert note.startswith("Only the first 65536")
