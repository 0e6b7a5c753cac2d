"""The reserve: which writes may use it, and that it is enough for them on a disk that is full to the last byte."""

import pytest

from registry.embedded.reserve import RESERVE_BYTES, STEP_BYTES, Reserve, may_use_reserve
from registry.embedded.tree import new_root
from support.full_registry import DISK_BYTES, SCENARIOS
from support.small_disk import run_on_small_disk


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_real_disk_that_is_full(tmp_path, scenario):
    run_on_small_disk("support.full_registry", "main", tmp_path / "disk", DISK_BYTES, scenario)


def node(size, **fields):
    return new_root()._replace(data=bytes(size), **fields)


@pytest.mark.parametrize(
    ("path", "before", "after", "may"),
    [
        ("/brokers/topics/t", node(9), None, True),
        ("/brokers/topics/t", None, node(9), False),
        ("/brokers/topics/t", node(9), node(10), False),  # more partitions
        ("/brokers/topics/t", node(9), node(9), True),
        ("/brokers/topics/t/partitions/0/state", node(9), node(10), True),
        ("/brokers/topics/t/partitions/0/state", None, node(9), False),
        ("/brokers/ids/0", None, node(9, ephemeral_owner=1), True),
        ("/admin/delete_topics/t", None, node(0), True),
        ("/config/topics/t", None, node(100), True),
        ("/config/topics/t", None, node(5000), False),
        ("/config/topics/t", node(100), node(5000), False),
        ("/config/users/u", None, node(9), False),
        ("/kafka-acl/Topic/t", None, node(9), False),
    ],
)
def test_which_writes_may_use_it(path, before, after, may):
    assert may_use_reserve(path, before, after) is may


def test_it_is_released_in_steps_and_restored(tmp_path):
    reserve = Reserve(tmp_path / "reserve")
    for _ in range(2):
        assert reserve.fill()
        assert reserve.path.stat().st_size == RESERVE_BYTES
        sizes = []
        while reserve.release():
            sizes.append(reserve.path.stat().st_size)
        assert sizes == list(range(RESERVE_BYTES - STEP_BYTES, -1, -STEP_BYTES))


def test_a_file_that_cannot_be_made_stops_no_write(tmp_path, caplog):
    reserve = Reserve(tmp_path / "no such directory" / "reserve")
    assert reserve.fill()
    assert not reserve.release()
    assert "there is no reserve" in caplog.text
