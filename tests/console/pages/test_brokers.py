"""The pages of brokers in a browser: the list, moves, elections, and the tabs of one broker."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from ottla import testing
from support.console_pages import LOOKS, accessibility_problems, console_pages, overflow
from support.deadlines import DEADLINE_S
from support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def broker_id(broker):
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic("orders", partitions=2)
        return (await admin.describe_cluster()).controller_id


@pytest.mark.parametrize("look", LOOKS)
async def test_the_list_shows_load_and_leads_to_a_broker(console, broker_id, look):
    async with console.at("/brokers", **LOOKS[look]) as page:
        row = page.get_by_role("row", name=re.compile(f"Broker {broker_id}"))
        await expect(row).to_contain_text("controller")
        await expect(page.get_by_text("No partition is being moved.")).to_be_visible()
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []
        await row.get_by_role("link").click()
        await expect(page.get_by_role("heading", name=f"Broker {broker_id}")).to_be_visible()


async def test_the_list_tells_leaders_from_preferred_leaders(console, broker_id):
    async with console.at("/topics") as page:

        async def many(route):
            answer = await route.fetch()
            found = await answer.json()
            load = {"leaders": 29, "preferred_leaders": 20, "leads_preferred": 18}
            await route.fulfill(response=answer, json=found | {"brokers": [found["brokers"][0] | load]})

        await page.route("**/api/v1/brokers", many)
        await page.get_by_role("link", name="Brokers", exact=True).click()
        cells = page.get_by_role("row", name=re.compile("Broker ")).get_by_role("cell")
        await expect(cells.get_by_text("29 (18 of 20 preferred)", exact=True)).to_be_visible()


@pytest.mark.parametrize("look", LOOKS)
async def test_every_tab_is_accessible(console, broker_id, look):
    async with console.at(f"/brokers/{broker_id}", **LOOKS[look]) as page:
        for tab in ("Configuration", "Log directories", "Partitions", "Statistics", "API versions", "Log levels"):
            link = page.get_by_role("link", name=tab, exact=True)
            await link.click()
            await expect(link).to_have_attribute("aria-current", "page")
            assert await overflow(page) <= 0
            if look == "desktop" or tab == "Configuration":
                assert await accessibility_problems(page) == []


async def test_a_setting_is_changed_after_its_difference_was_shown_and_reset(console, broker_id):
    async with console.at(f"/brokers/{broker_id}?q=log.retention.ms", allowed_error="400") as page:
        setting = page.locator('details[data-name="log.retention.ms"]')
        await setting.locator("summary").click()
        await setting.get_by_role("button", name="Change…").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("New value").fill("often")
        await expect(dialog.get_by_label("What changes")).to_contain_text("+ log.retention.ms = often")
        await dialog.get_by_role("button", name="Apply").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("log.retention.ms")
        await dialog.get_by_label("New value").fill("7200000")
        assert await accessibility_problems(page) == []
        await dialog.get_by_role("button", name="Apply").click()
        await expect(page.get_by_text(f"log.retention.ms is 7200000 on broker {broker_id} now.")).to_be_visible()
        await expect(setting.locator("summary")).to_contain_text("this broker")
        await setting.get_by_role("button", name="Reset…").click()
        await expect(page.get_by_role("dialog")).to_contain_text(
            "The value 7200000 that is set for this broker is removed."
        )
        await page.get_by_role("dialog").get_by_role("button", name="Reset").click()
        await expect(setting.locator("summary")).to_contain_text("default")


NAME = "log.cleaner.backoff.ms"


async def asked(page, action):
    """Ask for a change of the setting on the page of a broker. Returns the dialog."""
    setting = page.locator(f'details[data-name="{NAME}"]')
    if await setting.get_attribute("open") is None:
        await setting.locator("summary").click()
    await setting.get_by_role("button", name=action).click()
    return page.get_by_role("dialog")


async def change(page, value, scope):
    """Give the setting a value."""
    dialog = await asked(page, "Change…")
    await dialog.get_by_label("New value").fill(value)
    await dialog.get_by_label("Where").select_option(scope)
    await dialog.get_by_role("button", name="Apply").click()
    await expect(dialog).to_have_count(0)


async def reset(page):
    """Remove the value that applies."""
    dialog = await asked(page, "Reset…")
    await dialog.get_by_role("button", name="Reset").click()
    await expect(dialog).to_have_count(0)


async def undo(page):
    """Take the last change back."""
    await page.get_by_role("button", name="Undo").last.click()
    await expect(page.get_by_text(f"{NAME} is as before.").last).to_be_visible()


async def test_a_changed_setting_is_as_before_after_undo(console, broker_id):
    async def until_set(**values):
        """Wait until the setting has these own values: of all brokers, of this broker."""
        wanted = {f"DYNAMIC_{scope}_CONFIG": value for scope, value in values.items()}

        async def is_set():
            found = (await console.rest.get(f"/api/v1/brokers/{broker_id}/settings"))["settings"]
            (synonyms,) = (one["synonyms"] for one in found if one["name"] == NAME)
            own = {one["source"]: one["value"] for one in synonyms if one["source"].startswith("DYNAMIC")}
            return own == wanted

        await until(is_set, f"{values} are set")

    async with console.at(f"/brokers/{broker_id}?q={NAME}") as page:
        await change(page, "7000", "all")
        await undo(page)
        await until_set()
        await change(page, "8000", "all")
        await until_set(DEFAULT_BROKER="8000")
        await page.reload()
        await change(page, "9000", "broker")
        await until_set(DEFAULT_BROKER="8000", BROKER="9000")
        await change(page, "9500", "all")
        await until_set(DEFAULT_BROKER="9500", BROKER="9000")
        await undo(page)
        await until_set(DEFAULT_BROKER="8000", BROKER="9000")
        await page.reload()
        await reset(page)
        await until_set(DEFAULT_BROKER="8000")
        await undo(page)
        await until_set(DEFAULT_BROKER="8000", BROKER="9000")
        await page.reload()
        await reset(page)
        await until_set(DEFAULT_BROKER="8000")
        await page.reload()
        await reset(page)
        await until_set()


async def test_undo_works_on_the_next_page(console, broker_id):
    async with console.at(f"/brokers/{broker_id}?q={NAME}") as page:
        await change(page, "7000", "broker")
        await page.get_by_role("link", name="API versions", exact=True).click()
        await expect(page.get_by_role("table", name="APIs of this broker")).to_be_visible()
        await undo(page)
        await page.get_by_role("link", name="Configuration", exact=True).click()
        await expect(page.locator(f'details[data-name="{NAME}"] summary')).to_contain_text("default")


async def test_a_new_password_is_not_shown(console, broker_id):
    secret, name = "open-sesame", "listener.name.other.ssl.keystore.password"
    async with console.at("/brokers") as page:

        async def hidden(route):
            answer = await route.fetch()
            found = await answer.json()
            setting = found["settings"][0] | {"name": name, "value": None, "is_sensitive": True, "is_read_only": False}
            await route.fulfill(response=answer, json=found | {"settings": [setting]})

        sent = []

        async def accepted(route):
            sent.append(route.request.post_data_json)
            await route.fulfill(status=204)

        await page.route("**/settings", hidden)
        await page.route("**/configs:alter", accepted)
        await page.goto(f"{console.rest.url}/brokers/{broker_id}")
        setting = page.locator(f'details[data-name="{name}"]')
        await setting.locator("summary").click()
        await setting.get_by_role("button", name="Change…").click()
        dialog = page.get_by_role("dialog")
        value = dialog.get_by_label("New value")
        await expect(value).to_have_attribute("type", "password")
        await value.fill(secret)
        await expect(dialog.get_by_label("What changes")).to_contain_text(f"+ {name} = hidden")
        assert secret not in await page.locator("body").inner_text()
        await dialog.get_by_role("button", name="Apply").click()
        await expect(page.get_by_text(f"{name} is changed on broker {broker_id} now.")).to_be_visible()
        assert secret not in await page.locator("body").inner_text()
        assert sent[-1]["data"] == [{"name": name, "value": secret}]


async def test_a_log_level_is_as_before_after_undo(console, broker_id):
    path = f"/api/v1/brokers/{broker_id}/log-levels"

    async def levels():
        return (await console.rest.get(path))["levels"]

    (logger,) = (one for one in await levels() if one.endswith("apis.stop_replica"))
    parent, _, _ = logger.rpartition(".")
    before = (await levels())[logger]

    async def set_level(name, level):
        assert (await console.rest.ask("POST", path, {"data": [{"logger": name, "level": level}]})).status == 204

    async with console.at(f"/brokers/{broker_id}/log-levels?q={logger}") as page:
        level = page.get_by_role("combobox")
        for value, old in (("DEBUG", before), ("as the one above", "ERROR")):
            await level.select_option(value)
            await page.get_by_role("button", name="Undo").click()
            await expect(page.get_by_text(f"{logger} logs {old} again.")).to_be_visible()
            await expect(level).to_have_value(old)
            await set_level(parent, "FATAL")
            found = (await levels())[logger]
            await set_level(parent, None)
            assert found == ("FATAL" if old == before else "ERROR")  # the first one was inherited
            await set_level(logger, "ERROR")
            await page.reload()
            await expect(level).to_have_value("ERROR")
    await set_level(logger, None)
    assert (await levels())[logger] == before


async def test_a_log_level_is_set(console, broker_id):
    async with console.at(f"/brokers/{broker_id}/log-levels?q=apis.stop_replica") as page:
        level = page.get_by_role("combobox")
        await level.select_option("DEBUG")
        await expect(page.get_by_text(re.compile("logs DEBUG now"))).to_be_visible()
        await level.select_option("as the one above")
        await expect(page.get_by_text(re.compile("has the level of the logger above it now"))).to_be_visible()


async def test_a_level_that_is_refused_or_the_same_is_not_shown_as_chosen(console, broker_id):
    async def refuse(route):
        if route.request.method == "POST":
            await route.fulfill(status=403, json={"message": "Not you."})
        else:
            await route.continue_()

    async with console.at(f"/brokers/{broker_id}/log-levels?q=apis.stop_replica", allowed_error="403") as page:
        level = page.get_by_role("combobox")
        before = await level.input_value()
        await level.select_option("as the one above")
        await expect(page.get_by_text(re.compile("has the level of the logger above it now"))).to_be_visible()
        await expect(level).to_have_value(before)
        await page.route("**/log-levels", refuse)
        await level.select_option("FATAL")
        await expect(page.get_by_text("Not you.")).to_be_visible()
        await expect(level).to_have_value(before)


async def test_an_election_and_its_refusal(console, broker_id):
    async with console.at("/brokers") as page:
        await page.get_by_role("button", name="Elect leaders…").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Unclean election").check()
        await dialog.get_by_role("button", name="Elect", exact=True).click()
        await expect(dialog.get_by_role("alert")).to_contain_text("Type unclean")
        await dialog.get_by_label("Preferred leaders").check()
        assert await accessibility_problems(page) == []
        await dialog.get_by_role("button", name="Elect", exact=True).click()
        await expect(page.get_by_text("No partition needed it.")).to_be_visible()


async def test_partitions_are_moved_and_the_move_is_cancelled(browser):
    patient = {"zookeeper.session.timeout.ms": str(int(2000 * DEADLINE_S))}
    with testing.cluster(2, patient) as cluster:
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            here = (await admin.describe_cluster()).controller_id
            (there,) = set(cluster.brokers) - {here}
            await admin.create_topic("moved", assignment={0: [here]})
        async with (
            console_pages(browser, cluster.brokers[here].bootstrap_servers) as console,
            console.at("/brokers") as page,
        ):
            cluster.kill_broker(there)
            try:
                await move(page, here, there)
            finally:
                cluster.start_broker(there)


async def move(page, here, there):
    await page.get_by_role("button", name="Move partitions…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Topic").fill("moved")
    await dialog.get_by_label(f"Broker {here}").uncheck()
    await dialog.get_by_role("button", name="Show the plan").click()
    await expect(dialog).to_contain_text(f"moved-0: {here} → {there}")
    assert await accessibility_problems(page) == []
    await dialog.get_by_role("button", name="Move 1 partition").click()
    await expect(page.get_by_text("1 partition of moved moves.")).to_be_visible()
    await page.get_by_role("button", name="Cancel the move of moved-0").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel the move").click()
    await expect(page.get_by_text("No partition is being moved.")).to_be_visible()
