"""The engine: limits of faults, what is listed of them, and how they are healed, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from ottla.testing.faults.description import CountedFault, Description, Fault, option
from ottla.testing.faults.engine import Engine
from ottla.testing.faults.errors import FaultError, UnknownFaultError
from ottla.testing.faults.scene import Scene
from ottla.testing.faults.verb import Applied, Verb
from support.polling import until


@dataclass(frozen=True, kw_only=True)
class Leak(CountedFault):
    """Let something leak."""

    where: str = option("The place.")


@dataclass(frozen=True, kw_only=True)
class Flood(Fault):
    """Flood everything."""


@dataclass(frozen=True, kw_only=True)
class Knock(Description):
    """Knock once."""


class Bench:
    """An engine with verbs that note what is done."""

    def __init__(self):
        self.faults = {}
        self.healed = []
        self.error = None
        verbs = [
            Verb("leak", Leak, self.last, Leak(where="roof")),
            Verb("flood", Flood, self.last, Flood()),
            Verb("knock", Knock, self.once, Knock()),
        ]
        self.engine = Engine(Scene({}, None), {verb.name: verb for verb in verbs})

    async def last(self, scene, description, fault):
        self.faults[fault.id] = fault

        async def heal():
            self.healed.append(fault.id)
            if self.error is not None:
                raise self.error

        return Applied({"places": 1}, heal)

    async def once(self, scene, description, fault):
        return Applied({"knocked": True}, None)


@pytest.fixture
async def bench():
    made = Bench()
    yield made
    made.engine.forget_all()


async def test_an_action_is_over_at_once(bench):
    told = await bench.engine.apply(Knock())
    assert told == {"id": 1, "verb": "knock", "options": {}, "uses": 0, "left": None, "left_s": None} | {
        "did": {"knocked": True},
        "is_lasting": False,
    }
    assert bench.engine.active() == []


async def test_a_fault_is_listed_until_it_is_healed(bench):
    first = await bench.engine.apply(Leak(where="roof"))
    second = await bench.engine.apply(Leak(where="wall", count=2))
    assert bench.faults[2].take()
    assert first["options"] == {"where": "roof"}
    assert second["options"] == {"where": "wall", "count": 2}
    assert [(one["id"], one["uses"], one["left"]) for one in bench.engine.active()] == [(1, 0, None), (2, 1, 1)]
    assert bench.engine.get(2)["left"] == 1
    await bench.engine.heal(1)
    assert bench.healed == [1]
    assert not bench.faults[1].take()
    assert [one["id"] for one in bench.engine.active()] == [2]
    with pytest.raises(UnknownFaultError, match="id 1"):
        await bench.engine.heal(1)
    with pytest.raises(UnknownFaultError, match="id 1"):
        bench.engine.get(1)


async def test_a_count_ends_a_fault(bench):
    await bench.engine.apply(Leak(where="roof", count=2))
    fault = bench.faults[1]
    assert [fault.take(), fault.take(), fault.take()] == [True, True, False]
    await until(lambda: bench.healed == [1], "the fault is healed")
    assert bench.engine.active() == []


async def test_a_use_that_waits_keeps_the_fault_listed_and_a_heal_ends_the_wait(bench):
    await bench.engine.apply(Leak(where="roof", count=1))
    fault = bench.faults[1]
    assert fault.take(waits=True)
    waiting = asyncio.create_task(fault.wait(3600))
    await asyncio.sleep(0)
    assert [one["left"] for one in bench.engine.active()] == [0]
    await bench.engine.heal(1)
    await waiting
    assert bench.healed == [1]


async def test_a_use_that_waits_ends_by_itself(bench):
    await bench.engine.apply(Leak(where="roof", count=1))
    fault = bench.faults[1]
    assert fault.take(waits=True)
    await fault.wait(0.001)
    await until(lambda: bench.healed == [1], "the fault is healed")


async def test_time_ends_a_fault(bench):
    told = await bench.engine.apply(Flood(for_s=0.001))
    assert told["options"] == {"for_s": 0.001}
    assert told["left_s"] <= 0.001
    await until(lambda: bench.healed == [1], "the fault is healed")
    assert bench.engine.active() == []


async def test_all_are_healed_the_newest_first_also_if_one_cannot(bench):
    for _ in range(3):
        await bench.engine.apply(Flood())
    assert await bench.engine.heal_all() == [1, 2, 3]
    assert bench.healed == [3, 2, 1]
    await bench.engine.apply(Flood())
    bench.error = OSError("stuck")
    with pytest.raises(ExceptionGroup) as caught:
        await bench.engine.heal_all()
    assert caught.group_contains(OSError, match="stuck")
    assert bench.engine.active() == []
    assert await bench.engine.heal_all() == []


async def test_a_limit_whose_healing_fails_is_logged(bench, caplog):
    bench.error = OSError("stuck")
    await bench.engine.apply(Flood(for_s=0.001))
    await until(lambda: "could not be healed" in caplog.text, "the failure is logged")


async def test_forget_all_heals_nothing_and_ends_waits(bench):
    await bench.engine.apply(Leak(where="roof"))
    await bench.engine.apply(Flood(for_s=3600))
    assert bench.faults[1].take(waits=True)
    waiting = asyncio.create_task(bench.faults[1].wait(3600))
    await asyncio.sleep(0)
    bench.engine.forget_all()
    await waiting
    assert bench.healed == []
    assert bench.engine.active() == []


@pytest.mark.parametrize(
    ("description", "text"),
    [
        (lambda: Flood(for_s=0), "for_s=0: must be above 0"),
        (lambda: Leak(where="roof", for_s=-1), "for_s=-1"),
        (lambda: Leak(where="roof", count=0), "count=0: must be 1 or more"),
    ],
)
async def test_limits_are_checked(description, text):
    with pytest.raises(FaultError, match=text):
        description()
