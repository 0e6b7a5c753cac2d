"""Errors of the source and the sink; errors of the client (client.errors) are not wrapped."""

from client.errors import KafkaError


class DataLossError(KafkaError):
    """Offsets of a query no longer exist; the message names partitions and offsets."""


class NoProgressError(KafkaError):
    """A task got no records for kafkaConsumer.pollTimeoutMs; the message names the partition and any known reason."""


LOSS_ADVICE = (
    "Some data may have been missed: deleted by retention or DeleteRecords, or with the topic, or lost by the cluster. "
    "With failOnDataLoss=false the query continues with the records that exist."
)


class ColumnError(KafkaError):
    """A column has the wrong name or type, or a row lacks a required value; the message names it."""


class DeliveryError(KafkaError):
    """A row was not written; the message names topic, partition and reason."""


class BatchError(KafkaError):
    """A batch cannot be committed as a whole; the message says what to do."""
