"""Reassignments in progress over the REST API: of a cluster whose second broker does not answer."""

from client.admin.admin import Admin
from client.topic_partition import TopicPartition
from ottla import testing
from support.polling import until
from support.rest import differences, recorded, rest_api

PATH = "/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/reassignment"


async def test_a_reassignment_in_progress():
    with testing.cluster(2) as cluster:
        moved = TopicPartition("moved", 0)
        async with (
            rest_api(cluster.bootstrap_servers) as rest,
            Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
        ):
            first, second = sorted(cluster.brokers)
            controller = (await admin.describe_cluster()).controller_id
            here, there = (first, second) if controller == first else (second, first)
            body = {"topic_name": "moved", "replicas_assignments": {"0": [here]}}
            assert (await rest.ask("POST", "topics", body)).status == 201
            cluster.pause_broker(there)
            try:
                errors = await admin.alter_partition_reassignments({moved: [there]})
                assert errors == {moved: None}

                async def listed():
                    return (await rest.get("topics/-/partitions/-/reassignment"))["data"]

                (found,) = await until(listed, "the reassignment is listed")
                assert (found["adding_replicas"], found["removing_replicas"]) == ([there], [here])
                one = await rest.get("topics/moved/partitions/0/reassignment")
                assert one == found
                shape = recorded()[f"GET {PATH}"]["responses"]["200"]["application/json"]
                assert differences(shape, one) == []
                assert (await rest.get("topics/moved/partitions/-/reassignment"))["data"] == [found]
            finally:
                cluster.resume_broker(there)
