"""kafka-python's codec and record classes: importing it warns on Python 3.11, and warnings are errors."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka import codec
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
    from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder

__all__ = [
    "DefaultRecordBatch",
    "DefaultRecordBatchBuilder",
    "LegacyRecordBatch",
    "LegacyRecordBatchBuilder",
    "codec",
]
