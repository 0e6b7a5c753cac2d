"""Compaction in a live broker: a process of its own compacts what clients write, and clients read what is left."""

from __future__ import annotations

import logging

from protocol.record_batch_builder import RecordBatchBuilder
from support.broker import until
from support.live import live
from support.log_dirs import read_records

POLICY = {"cleanup_policy": "compact", "segment_bytes": "2000", "min_cleanable_dirty_ratio": "0.01"}


def keyed(*pairs, timestamp):
    builder = RecordBatchBuilder()
    for key, value in pairs:
        builder.append(timestamp, key, value)
    return builder.build()


async def test_keys_that_are_overwritten_leave_their_last_value(tmp_path, caplog):
    caplog.set_level(logging.INFO, "storage.log_cleaner")
    async with live(tmp_path, {"log.cleaner.backoff.ms": "20"}) as broker:
        await broker.create("t", **POLICY)
        for number in range(60):
            pairs = [(b"key-%d" % key, b"%d" % number * 20) for key in range(5)]
            assert (await broker.produce("t", keyed(*pairs, timestamp=broker.clock.now_ms))).error_code == 0
        log = broker.log("t")
        cleaner = broker.broker.services.logs.cleaner
        await until(lambda: cleaner.checkpoints.get(("t", 0)) == log.active_segment.base_offset, "it is compacted")
        records = read_records(log)
        assert {record.key: record.value for record in records} == {b"key-%d" % key: b"59" * 20 for key in range(5)}
        assert len(records) < 60
        await until(lambda: log.compaction is None, "the run has ended")
        assert not list(log.directory.glob("*.cleaned")) + list(log.directory.glob("*.swap"))
    text = (tmp_path / "cleaner-offset-checkpoint").read_text()
    assert text == f"0\n1\nt 0 {log.active_segment.base_offset}\n"
    assert "t-0: compacted [0, " in caplog.text
