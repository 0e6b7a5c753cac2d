"""The client of a schema registry: what it asks for, once, and what it says if there is no answer."""

import pytest
from aiohttp import web

from client.schemas.codec import SchemaError
from client.schemas.registry import SchemaRegistry
from ottla.schemas.loading import find_registered
from support.schema_registry import RegistryThread


@pytest.fixture
def served():
    with RegistryThread() as running:
        yield running


async def test_schemas_are_asked_for_once(served):
    served.register("size", '"int"')
    served.register("item", '"string"', references=[("shop.Size", "size", 1)])
    number = served.register("orders/value", '"long"', "JSON", references=[("shop.Item", "item", 1)])
    async with SchemaRegistry(served.url + "/") as client:
        for _ in range(3):
            schema = await client.by_id(number)
        assert schema == (number, "JSON", '"long"', {"shop.Item": '"string"', "shop.Size": '"int"'})
        assert served.requests == [f"/schemas/ids/{number}", "/subjects/item/versions/1", "/subjects/size/versions/1"]
        assert await client.latest("orders/value") == schema
        assert await find_registered(client, str(number)) == (schema, None)
        assert await find_registered(client, "orders/value#Order") == (schema, "Order")
        assert (await client.by_id(1)).kind == "AVRO"


async def test_what_the_registry_does_not_have(served):
    served.register("orders-value", '"string"')
    number = served.register("item", '"x"', references=[("Size", "size", 3)])
    async with SchemaRegistry(served.url) as client:
        with pytest.raises(SchemaError, match=f"{served.url} has no schema with the id 77"):
            await client.by_id(77)
        with pytest.raises(SchemaError, match=r"has no subject orders-valu \(did you mean orders-value\?\)"):
            await find_registered(client, "orders-valu")
        with pytest.raises(SchemaError, match="has no version 3 of the subject size, which is referred to as Size"):
            await client.by_id(number)


async def test_user_and_password():
    with RegistryThread(auth=("franz", "p@ss:é")) as served:
        served.register("orders-value", '"string"')
        address = f"127.0.0.1:{served.port}"
        async with SchemaRegistry(f"http://franz:p%40ss%3A%C3%A9@{address}") as client:
            assert (await client.by_id(1)).text == '"string"'
        async with SchemaRegistry(f"http://franz:secret@{address}") as client:
            with pytest.raises(SchemaError, match=r"refuses access \(401 Unauthorized\)") as raised:
                await client.by_id(1)
        assert "secret" not in str(raised.value)


async def test_a_registry_that_does_not_answer(served):
    async with SchemaRegistry("http://127.0.0.1:1") as client:
        with pytest.raises(SchemaError, match=r"http://127.0.0.1:1 cannot be reached \(.*refused"):
            await client.by_id(1)
    served.silent = True
    async with SchemaRegistry(served.url, timeout_s=0.05) as client:
        with pytest.raises(SchemaError, match=r"has not answered in 0\.05 s"):
            await client.by_id(1)


async def test_an_answer_that_is_too_large(served):
    served.register("orders-value", '"string"')
    async with SchemaRegistry(served.url, max_bytes=10) as client:
        with pytest.raises(SchemaError, match="answers with more than 10 bytes"):
            await client.by_id(1)


async def test_only_some_schemas_are_kept(served):
    for number in range(3):
        served.register("orders-value", str(number))
    async with SchemaRegistry(served.url, keeps=1) as client:
        for number in (1, 1, 2, 1):
            await client.by_id(number)
    assert [path[-1] for path in served.requests] == ["1", "2", "1"]


@pytest.mark.parametrize(
    ("status", "text", "clue"),
    [
        (200, "<html>", "does not answer as a schema registry: 200"),
        (200, "[]", "the answer has no field 'schema'"),
        (200, "{}", "the answer has no field 'schema'"),
        (404, "<html>", "does not answer as a schema registry: 404"),
        (500, '{"error_code": 50001, "message": "store failed"}', "500 store failed"),
    ],
)
async def test_what_is_no_registry(status, text, clue):
    async def answer(request):
        return web.Response(status=status, text=text)

    app = web.Application()
    app.add_routes([web.get("/{path:.*}", answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with SchemaRegistry(f"http://127.0.0.1:{runner.addresses[0][1]}") as client:
            with pytest.raises(SchemaError) as raised:
                await client.by_id(1)
        assert clue in str(raised.value)
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://x", "http://", "http://x:port"])
def test_what_is_no_url(url):
    with pytest.raises(SchemaError, match="is not a URL"):
        SchemaRegistry(url)


@pytest.mark.parametrize(
    "url", ["ftp://me:hunter2@x", "http://me:hunter2@[x", "http://me:hunter2/", "http://me:hunter2@x:y"]
)
def test_no_error_shows_a_password_in_a_url(url):
    with pytest.raises(SchemaError, match="is not a URL") as caught:
        SchemaRegistry(url)
    assert "hunter2" not in str(caught.value)


def test_a_password_that_cannot_be_encoded():
    with pytest.raises(SchemaError, match="the password of the schema registry must not contain half") as caught:
        SchemaRegistry("http://127.0.0.1:1", user_info="me:hunter2\ud800")
    assert "hunter2" not in str(caught.value)
