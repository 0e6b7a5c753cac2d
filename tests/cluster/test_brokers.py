"""Three broker processes on one ZooKeeper: who is there, who decides, and what survives."""

from support.cluster import broker_cluster, eventually


async def test_three_brokers_are_one_cluster(tmp_path):
    async with broker_cluster(tmp_path) as cluster:
        assert await cluster.live() == {0, 1, 2}
        assert await cluster.controller() in {0, 1, 2}
        await cluster.create_topic("t", {0: [0], 1: [1], 2: [2]})
        assert [(await cluster.state("t", partition))["leader"] for partition in range(3)] == [0, 1, 2]
        await cluster.kill(1)

        async def is_missed():
            return (await cluster.state("t", 1))["leader"] == -1

        await eventually(is_missed, "broker 1 leads nothing")
        await cluster.start(1)

        async def leads_again():
            return (await cluster.state("t", 1))["leader"] == 1

        await eventually(leads_again, "broker 1 leads again")
        await cluster.stop(2)
        assert await cluster.live() == {0, 1}
