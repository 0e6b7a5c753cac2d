"""Every node of Kafka's tree has a sentence."""

from broker.inspection.meanings import MEANINGS, meaning_of
from registry.znodes import tree


def test_every_znode_class_has_a_sentence():
    tree.znode_class("/")
    assert {znode.TEMPLATE for _, znode in tree._patterns[tree.TODAY]} == set(MEANINGS)


def test_paths_that_are_not_kafkas():
    assert meaning_of("/zookeeper/quota") == "ZooKeeper's own node."
    assert meaning_of("/consumers/g") == "Part of Kafka's tree, without content of its own."
    assert meaning_of("/hbase/master") == "Not a node of Kafka's tree."
