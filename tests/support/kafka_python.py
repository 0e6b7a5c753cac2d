"""kafka-python's clients, codec and record classes: importing it warns on Python 3.11, and warnings are errors."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka import KafkaConsumer, KafkaProducer, codec
    from kafka.protocol.broker_version_data import BROKER_API_VERSIONS
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
    from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder
    from kafka.record.memory_records import MemoryRecords

__all__ = [
    "BROKER_API_VERSIONS",
    "DefaultRecordBatch",
    "DefaultRecordBatchBuilder",
    "KafkaConsumer",
    "KafkaProducer",
    "LegacyRecordBatch",
    "LegacyRecordBatchBuilder",
    "MemoryRecords",
    "codec",
]
