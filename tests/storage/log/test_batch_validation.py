"""Small records are many: what a batch of a few kilobytes costs, and what its error names."""

from __future__ import annotations

import tracemalloc

import pytest

from protocol.compression import CompressionType
from protocol.record_batch import RecordBatch
from protocol.record_batch_builder import RecordBatchBuilder
from storage.errors import InvalidTimestampError, RecordValidationError
from storage.log.batch_validation import MAX_RECORD_ERRORS, BatchRules
from storage.log.config import LogConfig

NOW_MS = 1_700_000_000_000


def rules(**settings: str) -> BatchRules:
    return BatchRules(LogConfig({name.replace("_", "."): value for name, value in settings.items()}), full=False)


def batch(count: int, key: bytes | None = b"") -> memoryview:
    builder = RecordBatchBuilder(0, CompressionType.ZSTD)
    for _ in range(count):
        builder.append(NOW_MS, key, None)
    return memoryview(builder.build())


@pytest.mark.parametrize("codec", ["producer", "lz4"])
def test_records_are_not_all_in_memory_as_objects(codec: str):
    records = batch(50_000)
    decompressed = len(RecordBatch(records).records_data())
    checked = rules(cleanup_policy="compact", compression_type=codec)
    tracemalloc.start()
    try:
        checked.validate(records, NOW_MS, client=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * decompressed


def test_an_error_names_a_limited_number_of_records():
    records = batch(MAX_RECORD_ERRORS + 5, key=None)
    with pytest.raises(RecordValidationError, match=f"^{MAX_RECORD_ERRORS + 5} records were rejected") as caught:
        rules(cleanup_policy="compact").validate(records, NOW_MS, client=True)
    assert len(caught.value.record_errors) == MAX_RECORD_ERRORS
    assert caught.value.record_errors[-1][0] == MAX_RECORD_ERRORS - 1


def test_a_timestamp_is_named_also_after_other_errors():
    builder = RecordBatchBuilder(0, CompressionType.NONE)
    builder.append(NOW_MS, None, b"no key")
    builder.append(NOW_MS - 10_000, b"k", b"too old")
    checked = rules(cleanup_policy="compact", message_timestamp_before_max_ms="1000")
    with pytest.raises(InvalidTimestampError, match="for their timestamp: timestamp") as caught:
        checked.validate(memoryview(builder.build()), NOW_MS, client=True)
    assert [index for index, _ in caught.value.record_errors] == [0, 1]
