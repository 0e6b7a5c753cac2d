"""Errors of the source and the sink; those of the client (client.errors) pass as they are."""

from client.errors import KafkaError


class DataLossError(KafkaError):
    """Offsets that a query was to read are not there any more: the message names partitions and offsets."""


class NoProgressError(KafkaError):
    """A task got no records for kafkaConsumer.pollTimeoutMs: the message says of what, and why as far as is known."""


LOSS_ADVICE = (
    "Some data may have been missed: deleted by retention or DeleteRecords, or with the topic, or lost by the cluster. "
    "With failOnDataLoss=false the query goes on with what there is."
)


class ColumnError(KafkaError):
    """A query's columns are not those that the sink takes, or a row lacks what it needs: the message says which."""


class DeliveryError(KafkaError):
    """A row was not written: the message names topic, partition and why."""


class BatchError(KafkaError):
    """A batch cannot be committed as a whole: the message says what is left to do."""
