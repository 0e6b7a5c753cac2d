"""A hanging transaction: open in a partition, and unknown to every coordinator.

Brokers before 3.6 let it come about; so does one that does not verify partitions (KIP-890):
`transaction.partition.verification.enable=false`.
"""

import time

from client.admin.admin import Admin
from support.wire import batch, produce, wire_client

MINUTE_MS = 60_000
HANGING_ID, HANGING_EPOCH = 4711, 3


async def write_hanging(bootstrap: str, topic: str, partition: int = 1) -> None:
    """Write the only record of a transaction that began half an hour ago. bootstrap: of the cluster."""
    records = batch(
        b"lost",
        producer_id=HANGING_ID,
        producer_epoch=HANGING_EPOCH,
        sequence=0,
        transactional=True,
        timestamp=time.time_ns() // 1_000_000 - 30 * MINUTE_MS,
    )
    async with Admin(bootstrap_servers=bootstrap) as admin:
        leader = (await admin.describe_topics([topic]))[topic].partitions[partition].leader
        brokers = (await admin.describe_cluster()).brokers
    (address,) = (f"{one.host}:{one.port}" for one in brokers if one.node_id == leader)
    async with wire_client(address) as client:
        answer = await client.call(produce(topic, records, partition, transactional_id="gone"), 11)
    assert answer.responses[0].partition_responses[0].error_code == 0
