"""Schemas by id: one request for many readers, what is kept, and registries that do not answer."""

import asyncio
import contextlib
import sys

import pytest

from console.decoding.schema_cache import RETRY_S, Failure, SchemaCache
from support.schema_registry import RegistryThread


@pytest.fixture
def registry():
    with RegistryThread() as running:
        yield running


@contextlib.asynccontextmanager
async def cache(*urls, **options):
    made = SchemaCache(urls, **options)
    try:
        yield made
    finally:
        await made.close()


async def test_one_request_for_all_readers(registry):
    number = registry.register("orders-value", '"string"')
    async with cache(registry.url) as schemas:
        assert isinstance(schemas.get(number), Failure)
        await asyncio.gather(*[schemas.load([number, number]) for _ in range(20)])
        assert schemas.get(number).codec.decode(b"\x02a", is_framed=True) == "a"
        await schemas.load([number])
    assert registry.requests == [f"/schemas/ids/{number}"]


async def test_what_failed_is_asked_for_again_later(registry):
    now = [100.0]
    async with cache(registry.url, clock=lambda: now[0]) as schemas:
        for _ in range(3):
            await schemas.load([1])
        assert schemas.get(1).is_unknown
        assert len(registry.requests) == 1
        now[0] += RETRY_S + 1
        registry.register("orders-value", '"string"')
        await schemas.load([1])
        assert schemas.get(1).error is None


async def test_the_next_registry_is_asked_if_one_does_not_answer(registry):
    registry.register("orders-value", '"string"')
    async with cache("http://127.0.0.1:1", registry.url) as schemas:
        await schemas.load([1])
        assert schemas.get(1).schema.text == '"string"'


async def test_a_registry_that_hangs_is_waited_for_once(registry):
    registry.silent = True
    async with cache(registry.url, wait_s=0.2) as schemas:
        await schemas.load(range(1, 40))
        await schemas.load(range(1, 40))
        await schemas.load([41])
    assert len(registry.requests) < 40


async def test_forged_ids_are_limited(registry):
    async with cache(registry.url) as schemas:
        await schemas.load(range(1, 1000))
        assert len(registry.requests) == 50
        assert schemas.get(999).reason == "the schema is not loaded yet"


async def test_a_schema_that_cannot_be_used(registry):
    deep = "[" * 100_000 + "]" * 100_000
    ids = [registry.register("deep", deep), registry.register("wrong", "{]"), registry.register("kind", "x", "XML")]
    async with cache(registry.url) as schemas:
        await schemas.load(ids)
        for number in ids:
            found = schemas.get(number)
            assert found.codec is None
            assert f"the schema with the id {number}: " in found.error


async def test_a_missing_library_is_named(registry, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastavro", None)
    number = registry.register("orders-value", '"string"')
    async with cache(registry.url) as schemas:
        await schemas.load([number])
        assert "pip install 'ottla[schemas]'" in schemas.get(number).error
