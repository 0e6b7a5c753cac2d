"""The OpenAPI document: complete, and true to the recorded operations."""

import re

import jsonschema

from console.rest.openapi import openapi_document
from console.v3.table import OPERATIONS
from ottla import testing
from support.rest import recorded, rest_api


def document():
    return openapi_document({"/v3": OPERATIONS}, "1.0")


def references(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_operation_is_described_and_every_reference_resolves():
    found = document()
    described = {f"{method.upper()} {path}" for path, one in found["paths"].items() for method in one}
    assert described == {name.replace(" ", " /v3", 1) for name in recorded()}
    names = {f"#/components/schemas/{name}" for name in found["components"]["schemas"]}
    assert set(references(found)) <= names
    operations = [one for path in found["paths"].values() for one in path.values()]
    assert all(one["summary"] and one["description"] for one in operations)
    ids = [one["operationId"] for one in operations]
    assert len(set(ids)) == len(ids)


def test_parameters_are_the_recorded_ones():
    for name, known in recorded().items():
        method, _, path = name.partition(" ")
        described = document()["paths"]["/v3" + path][method.lower()]
        found = {one["name"]: one["in"] for one in described["parameters"]}
        expected = {one: re.match(r"\w+", kind).group() for one, kind in known["parameters"].items()}
        expected.pop("include_authorized_operations", None)  # docs/rest.md: not there
        assert found == expected, name
        assert ("requestBody" in described) == bool(known["request"])


async def test_the_document_is_served_and_describes_the_answers():
    with testing.broker() as broker:
        async with rest_api(broker.bootstrap_servers) as rest:
            served = await rest.get("/api/openapi.json")
            assert document()["paths"].items() <= served["paths"].items()
            assert set(references(served)) <= {
                f"#/components/schemas/{name}" for name in served["components"]["schemas"]
            }
            assert (await rest.ask("POST", "topics", {"topic_name": "orders"})).status == 201
            for path in (
                "/v3/clusters",
                "/v3/clusters/{cluster_id}/brokers",
                "/v3/clusters/{cluster_id}/topics",
                "/api/v1/session",
                "/api/v1/overview",
                "/api/v1/topics",
                "/api/v1/topics/orders",
                "/api/v1/topic-statistics",
            ):
                described = served["paths"][path.replace("orders", "{topic_name}")]["get"]
                schema = described["responses"]["200"]["content"]["application/json"]["schema"]
                answer = await rest.get(path.format(cluster_id=rest.cluster_id))
                jsonschema.validate(answer, schema | {"components": served["components"]})
