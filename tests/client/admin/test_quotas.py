"""Quotas through the admin client."""

from client.admin.admin import Admin
from client.admin.quotas import ANY, DEFAULT, QuotaEntity, label
from client.errors import KafkaError
from support.broker import running_broker

ALICE = QuotaEntity(user="alice")
APP = QuotaEntity(user="alice", client_id="app")
ALL_USERS = QuotaEntity(user=DEFAULT)
ADDRESS = QuotaEntity(ip="10.0.0.1")


async def test_quotas_are_altered_and_described(tmp_path):
    async with (
        running_broker(tmp_path / "data") as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        changes = {
            ALICE: {"producer_byte_rate": 1000, "request_percentage": 50.5},
            APP: {"consumer_byte_rate": 2000},
            ALL_USERS: {"producer_byte_rate": 3000},
            ADDRESS: {"connection_creation_rate": 4},
        }
        assert await admin.alter_client_quotas(changes, validate_only=True) == dict.fromkeys(changes)
        assert await admin.describe_client_quotas() == {}
        assert await admin.alter_client_quotas(changes) == dict.fromkeys(changes)
        assert await admin.describe_client_quotas() == changes
        assert (await admin.describe_client_quotas(user="alice")).keys() == {ALICE, APP}
        assert (await admin.describe_client_quotas(user="alice", strict=True)).keys() == {ALICE}
        assert (await admin.describe_client_quotas(user=DEFAULT)).keys() == {ALL_USERS}
        assert (await admin.describe_client_quotas(user=ANY, client_id=ANY)).keys() == {APP}
        assert (await admin.describe_client_quotas(ip=ANY)).keys() == {ADDRESS}
        outcomes = await admin.alter_client_quotas(
            {ALICE: {"producer_byte_rate": None}, APP: {"nonsense": 1.0}, ALL_USERS: {"producer_byte_rate": -1}}
        )
        assert outcomes[ALICE] is None
        assert isinstance(outcomes[APP], KafkaError)
        assert "user alice, client-id app".replace("-", " ") in str(outcomes[APP])
        assert outcomes[ALL_USERS].code == 42
        assert await admin.describe_client_quotas(user="alice", strict=True) == {ALICE: {"request_percentage": 50.5}}


def test_entities_in_words():
    assert label(APP) == "user alice, client id app"
    assert label(ALL_USERS) == "user (default)"
