"""The page of security in a browser, on a broker with an authorizer and SASL; and without."""

import re

import pytest
import pytest_asyncio
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import Producer as ConfluentProducer
from playwright.async_api import expect

from broker.settings.checks import ACL_AUTHORIZER
from client.admin.admin import Admin
from client.admin.quotas import DEFAULT, QuotaEntity
from ottla import testing
from security.acls.binding import AccessRule, AclBinding, ResourcePattern
from security.acls.types import Operation, Permission, ResourceType
from security.principal import Principal
from support.console_pages import LOOKS, ConsolePages, accessibility_problems, console_pages, cramped, overflow
from support.deadlines import DEADLINE_S
from support.polling import until
from support.rest import rest_api
from support.sasl import listener_settings, sasl_listeners

pytestmark = pytest.mark.asyncio(loop_scope="session")
TABS = ("", "/acls", "/quotas", "/tokens")
READS_CUSTOMERS = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "customers"),
    AccessRule("User:international", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW),
)
ALICE = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "alice-secret",
}


@pytest.fixture(scope="module")
def broker():
    values = {
        **sasl_listeners("SASL"),
        **listener_settings("SASL", "PLAIN", "SCRAM-SHA-256"),
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": "User:alice;User:ANONYMOUS",
        "delegation.token.secret.key": "key",
    }
    with testing.broker(values) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(browser, broker):
    async with rest_api(broker.bootstrap_servers, **ALICE) as rest:
        yield ConsolePages(browser, rest)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def admin(broker):
    async with Admin(bootstrap_servers=broker.bootstrap_servers, **ALICE) as running:
        yield running


async def press(page, name):
    await page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()


async def add_user(page, name):
    """Add a user on the page; return the password that it has generated."""
    await page.get_by_role("button", name="Add user…").click()
    await page.get_by_label("Name", exact=True).fill(name)
    await page.get_by_role("button", name="Generate").click()
    assert await accessibility_problems(page) == []
    password = await page.get_by_label("Password", exact=True).input_value()
    await press(page, "Add user")
    await expect(page.get_by_role("row", name=re.compile(name))).to_contain_text("SCRAM-SHA-256")
    return password


async def add_acls_of_a_producer(page, name, topic):
    await page.get_by_role("button", name="Add ACLs…").click()
    await page.get_by_label("Principal", exact=True).fill(f"User:{name}")
    await page.get_by_label("Topic", exact=True).fill(topic)
    await expect(page.get_by_role("dialog")).to_contain_text(f"+ ALLOW User:{name} from *: write topic {topic}")
    assert await accessibility_problems(page) == []
    await press(page, "Add")
    await expect(page.get_by_role("row", name=re.compile(f"User:{name}"))).to_have_count(3)


async def operations_of(admin, name):
    return {acl.rule.operation for acl in await admin.describe_acls() if acl.rule.principal == f"User:{name}"}


async def test_a_user_who_is_added_and_allowed_produces_only_there(console, broker, admin):
    for topic in ("orders", "private"):
        await admin.create_topic(topic)
    async with console.at("/security") as page:
        password = await add_user(page, "carol")
        assert (await admin.describe_scram_users(["carol"]))["carol"] == {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}
        await page.get_by_role("link", name="ACLs", exact=True).click()
        await add_acls_of_a_producer(page, "carol", "orders")
    assert await operations_of(admin, "carol") == {Operation.WRITE, Operation.DESCRIBE, Operation.CREATE}
    found = {}
    producer = ConfluentProducer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "carol",
            "sasl.password": password,
            "allow.auto.create.topics": True,
        }
    )
    for topic in ("orders", "private"):
        producer.produce(topic, b"one", on_delivery=lambda error, message: found.update({message.topic(): error}))
    producer.flush(DEADLINE_S)
    assert found["orders"] is None
    assert found["private"].code() == ConfluentError.TOPIC_AUTHORIZATION_FAILED


async def test_a_password_is_changed_and_a_user_deleted(console, admin):
    async with console.at("/security") as page:
        await add_user(page, "dave")
        await page.get_by_role("button", name="Change password dave").click()
        await page.get_by_label("Password", exact=True).fill("other")
        await page.get_by_label("Iterations").fill("5000")
        await page.get_by_label("SCRAM-SHA-512").uncheck()
        await press(page, "Change password")

        async def is_changed():
            found = await admin.describe_scram_users(["dave"])
            return found["dave"] == {"SCRAM-SHA-256": 5000, "SCRAM-SHA-512": 4096}

        await until(is_changed, "the password is changed")
        await page.get_by_role("button", name="Delete dave").click()
        await expect(page.get_by_role("dialog").get_by_role("button", name="Delete user")).to_be_disabled()
        await page.get_by_label("Type dave to confirm").fill("dave")
        await press(page, "Delete user")
        await expect(page.get_by_role("row", name=re.compile("dave"))).to_have_count(0)
        assert "dave" not in await admin.describe_scram_users()


async def test_acls_are_searched_deleted_and_restored(console, admin):
    async with console.at("/security/acls") as page:
        await add_acls_of_a_producer(page, "erin", "erins")
        await page.get_by_label("Search ACLs").fill("erin write")
        await expect(page).to_have_url(re.compile("q=erin"))
        await expect(page.get_by_role("row", name=re.compile("User:"))).to_have_count(1)
        await page.get_by_role("button", name="Delete these…").click()
        await expect(page.get_by_role("dialog")).to_contain_text("- ALLOW User:erin from *: write topic erins")
        await press(page, "Delete")
        await expect(page.get_by_role("row", name=re.compile("User:"))).to_have_count(0)

        async def are(*wanted):
            return await operations_of(admin, "erin") == set(wanted)

        await until(lambda: are(Operation.DESCRIBE, Operation.CREATE), "only the found ACL is deleted")
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("row", name=re.compile("User:"))).to_have_count(1)
        await until(lambda: are(Operation.WRITE, Operation.DESCRIBE, Operation.CREATE), "the ACL is restored")


async def test_a_form_that_is_closed_is_not_opened_again_by_who_types_at_this_moment(console):
    async with console.at("/security/acls?add=yes") as page:
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.evaluate(
            """() => {
              const search = document.querySelector("input[type=search]");
              [...document.querySelectorAll("dialog button")].find((one) => one.textContent === "Cancel").click();
              search.value = "erin";
              search.dispatchEvent(new Event("input"));
            }"""
        )
        await expect(page).to_have_url(re.compile(r"acls\?q=erin$"))
        await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_a_denial_of_one_operation_on_a_user(console, admin):
    async with console.at("/security/acls?add=yes&principal=User:frank") as page:
        await page.get_by_label("What", exact=True).select_option("one")
        await page.get_by_label("Permission", exact=True).select_option("DENY")
        await page.get_by_label("Resource", exact=True).select_option("USER")
        await page.get_by_label("Name", exact=True).fill("User:alice")
        await page.get_by_label("Operation", exact=True).select_option("CREATE_TOKENS")
        await press(page, "Add")
        await expect(page.get_by_role("row", name=re.compile("User:frank"))).to_contain_text("deny")
    assert await operations_of(admin, "frank") == {Operation.CREATE_TOKENS}


async def test_quotas_are_set_changed_and_restored(console, admin):
    async def are(entity, **wanted):
        return (await admin.describe_client_quotas()).get(entity, {}) == wanted

    async with console.at("/security/quotas") as page:
        for user, entity in (("grace", QuotaEntity(user="grace")), ("", QuotaEntity(user=DEFAULT))):
            await page.get_by_role("button", name="Set quotas…").click()
            await page.get_by_label("User", exact=True).fill(user)
            await page.get_by_label("Produce (bytes/s)").fill("1048576")
            await expect(page.get_by_label("What changes")).to_contain_text("+ Produce: 1 MiB/s")
            await press(page, "Apply")
            await until(lambda entity=entity: are(entity, producer_byte_rate=1048576), "the quota is set")
        row = page.get_by_role("row", name=re.compile("user grace"))
        await expect(row).to_contain_text("Produce: 1 MiB/s")
        await expect(page.get_by_role("row", name=re.compile("every other user"))).to_be_visible()
        await row.get_by_role("button", name="Remove").click()
        assert await accessibility_problems(page) == []
        await press(page, "Remove")
        await expect(row).to_have_count(0)
        await page.get_by_role("button", name="Undo").last.click()
        await expect(row).to_contain_text("Produce: 1 MiB/s")
    assert await are(QuotaEntity(user="grace"), producer_byte_rate=1048576)


async def test_a_token_is_created_shown_once_and_expired(console, admin):
    async with console.at("/security/tokens") as page:
        await page.get_by_role("button", name="Create token…").click()
        await page.get_by_label("Renewers").fill("User:bob")
        await press(page, "Create token")
        await expect(page.get_by_label("Login")).to_contain_text('tokenauth="true"')
        [token] = await admin.describe_delegation_tokens()
        await expect(page.get_by_label("Login")).to_contain_text(token.password)
        await press(page, "I have it")
        await expect(page.locator("dialog")).to_have_count(0)
        await expect(page.get_by_role("row", name=re.compile(token.token_id))).to_contain_text("User:bob")
        assert token.password not in await page.content()
        await page.get_by_role("button", name=f"Renew {token.token_id}").click()
        await expect(page.get_by_text("The token ends")).to_be_visible()
        await page.get_by_role("button", name=f"Expire {token.token_id}").click()
        await press(page, "Expire token")
        await expect(page.get_by_role("row", name=re.compile(token.token_id))).to_have_count(0)
    assert await admin.describe_delegation_tokens() == []


@pytest.mark.parametrize("look", LOOKS)
async def test_every_tab_in_every_look(console, admin, look):
    await admin.create_acls([READS_CUSTOMERS])
    await admin.set_scram_password("heidi", "secret")
    token = await admin.create_delegation_token([Principal("User", "international")])
    rows = {"": "heidi", "/acls": "User:international", "/quotas": "", "/tokens": token.token_id}
    for tab in TABS:
        async with console.at(f"/security{tab}", **LOOKS[look]) as page:
            await expect(page.get_by_role("row", name=re.compile(rows[tab])).first).to_be_visible()
            assert await overflow(page) <= 0
            assert await cramped(page) == []
            assert await accessibility_problems(page) == []
    await admin.expire_delegation_token(token.hmac, -1)


async def test_what_is_not_enabled_is_said(browser):
    with testing.broker() as plain:
        async with console_pages(browser, plain.bootstrap_servers) as pages:
            for tab, setting in (("acls", "authorizer.class.name"), ("tokens", "no login at the brokers")):
                async with pages.at(f"/security/{tab}") as page:
                    await expect(page.get_by_text(re.compile(setting))).to_be_visible()
                    await expect(page.get_by_role("link", name="Read how to enable it")).to_be_visible()
                    await expect(page.get_by_role("button", name=re.compile("Add|Create"))).to_have_count(0)
                    assert await accessibility_problems(page) == []


async def test_who_may_not_change_anything_is_offered_nothing(console):
    async with console.at("/brokers") as page:

        async def read_only(route):
            answer = await route.fetch()
            await route.fulfill(response=answer, json=await answer.json() | {"may_change": False})

        await page.route("**/api/v1/session", read_only)
        await page.goto(console.rest.url + "/security/acls?add=yes")
        await expect(page.get_by_role("table")).to_be_visible()
        await expect(page.get_by_role("button", name=re.compile("Add|Delete"))).to_have_count(0)
        await expect(page.get_by_role("dialog")).to_have_count(0)
