"""Fixtures of these examples."""

import itertools

import pytest

from ottla import testing

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def ottla_broker():
    with testing.broker() as broker:
        yield broker


@pytest.fixture
def ottla_topic(ottla_broker):
    return f"topic-{next(NUMBERS)}"
