"""What sets of ACLs allow: every row that was recorded from Apache Kafka, and the index behind it."""

import csv
import random
import re

import pytest

from security.acls.binding import AccessRule, ResourcePattern
from security.acls.decision import AclDecisions, parse_super_users
from security.acls.rules import AclRules
from security.acls.types import OPERATIONS_OF, Operation, PatternType, Permission, ResourceType
from security.principal import Principal
from support.reference import REFERENCE

NOT_DESCRIBED = -0x80000000
ACL = re.compile(r"(allow|deny) (\S+) (\w+) on (literal|prefixed) (\w+) (\S+?)(?: from ?(\S*))?")
SUPER_USERS = {"default": "User:admin", "allow.everyone.if.no.acl.found=true": "User:admin;User:carol"}


def by_label(kind):
    return {one.label: one for one in kind}


def rows():
    with (REFERENCE / "security" / "acl-semantics.tsv").open() as lines:
        for number, row in enumerate(csv.DictReader(lines, delimiter="\t")):
            yield pytest.param(row, id=f"{number}-{row['resource']}-{row['acls'][:60]}")


def rules_of(text):
    rules = AclRules()
    for acl in text.split("; ") if text != "(none)" else ():
        found = ACL.fullmatch(acl)
        assert found, acl
        permission, principal, operation, pattern, kind, name, host = found.groups()
        resource = ResourcePattern(by_label(ResourceType)[kind], name, PatternType[pattern.upper()])
        rule = AccessRule(
            principal, "*" if host is None else host, by_label(Operation)[operation], Permission[permission.upper()]
        )
        rules.set(resource, rules.rules_of(resource) | {rule})
    return rules


@pytest.mark.parametrize("row", list(rows()))
def test_a_recorded_decision(row):
    decisions = AclDecisions(
        rules_of(row["acls"]),
        parse_super_users(SUPER_USERS[row["setting"]]),
        allows_without_acls=row["setting"] != "default",
    )
    who = (Principal.parse(row["principal"]), row["host"])
    label, _, name = row["resource"].partition(" ")
    expected = {by_label(Operation).get(one, one) for one in row["allowed"].split(",") if one}
    if label == "Idempotent":
        may = decisions.allows(*who, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "kafka-cluster")
        may = may or decisions.allows_any(*who, Operation.WRITE, ResourceType.TOPIC)
        assert expected == ({"InitProducerId"} if may else set())
        return
    kind = by_label(ResourceType)[label]
    name = name or "kafka-cluster"
    allowed = {one for one in OPERATIONS_OF[kind] if decisions.allows(*who, one, kind, name)}
    if row["authorized_operations"]:
        bits = sum(1 << one for one in allowed)
        if kind is not ResourceType.CLUSTER and Operation.DESCRIBE not in allowed:
            bits = NOT_DESCRIBED
        if kind is ResourceType.CLUSTER and Operation.DESCRIBE not in allowed:
            bits = 0
        assert bits == int(row["authorized_operations"])
    # Create was tried with CreateTopics, which needs Create on the cluster or on the topic.
    topic = name if kind is ResourceType.TOPIC else "some-topic"
    either = [(ResourceType.CLUSTER, "kafka-cluster"), (ResourceType.TOPIC, topic)]
    has_create = kind in (ResourceType.TOPIC, ResourceType.CLUSTER)
    if has_create and any(decisions.allows(*who, Operation.CREATE, *resource) for resource in either):
        allowed.add(Operation.CREATE)
    assert expected == allowed - {Operation.IDEMPOTENT_WRITE}


def test_the_index_follows_changes():
    rng = random.Random(7)
    names = ["t", "te", "tea", "*", "x"]
    rules, plain = AclRules(), {}
    for _ in range(2000):
        pattern = ResourcePattern(ResourceType.TOPIC, rng.choice(names), rng.choice(list(PatternType)[3:]))
        rule = AccessRule(
            rng.choice(["User:a", "User:*"]),
            rng.choice(["*", "h"]),
            rng.choice([Operation.READ, Operation.ALL]),
            rng.choice([Permission.ALLOW, Permission.DENY]),
        )
        changed = rules.rules_of(pattern) ^ {rule}
        assert rules.set(pattern, changed)
        plain[pattern] = changed
        name = rng.choice(["t", "tea", "teas", "x", "y"])
        assert rules.allow("User:a", "h", Operation.READ, ResourceType.TOPIC, name) == plainly(plain, name)
        covering = [one for one in plain if plain[one] and covers(one, name)]
        assert rules.have_any_for(ResourceType.TOPIC, name) == bool(covering)


def covers(pattern, name):
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, "*")


def plainly(plain, name):
    """Decide by looking at every rule; all rules here are for this user, host and operation."""
    matching = [rule for pattern, rules in plain.items() if covers(pattern, name) for rule in rules]
    return bool(matching) and all(rule.permission is Permission.ALLOW for rule in matching)


@pytest.mark.parametrize("text", ["alice", "User", "User:a;;User:b"])
def test_a_super_user_needs_a_type_and_a_name(text):
    with pytest.raises(ValueError, match="must be type:name"):
        parse_super_users(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", set()),
        ("User:", {""}),
        ("User:a;", {"a"}),
        (" User:a ; User:b ", {"a", "b"}),
        ("User:a,User:b", {"a,User:b"}),
        ("User:CN=a,O=b;User:CN=c", {"CN=a,O=b", "CN=c"}),
    ],
)
def test_super_users_as_kafka_reads_them(text, names):
    assert {user.name for user in parse_super_users(text)} == names


def test_an_ipv6_host_is_the_same_in_both_spellings():
    """Kafka's Java writes 0:0:0:0:0:0:0:1 in ACLs; a socket of Python says ::1."""
    rules = rules_of("allow User:* Read on literal Topic t")
    topic = ResourcePattern(ResourceType.TOPIC, "t")
    decisions = AclDecisions(rules, frozenset(), allows_without_acls=False)
    asked = (Principal("User", "eve"), "::1", Operation.READ, ResourceType.TOPIC, "t")
    assert decisions.allows(*asked)
    both = {
        AccessRule("User:eve", host, Operation.READ, Permission.DENY) for host in ("0:0:0:0:0:0:0:1", "::1")
    } | rules.rules_of(topic)
    rules.set(topic, both)
    assert not decisions.allows(*asked)
    rules.set(topic, [rule for rule in both if rule.host != "::1"])
    assert not decisions.allows(*asked)
    assert not decisions.allows(asked[0], "::0001", *asked[2:])
    rules.set(topic, [rule for rule in both if rule.permission is Permission.ALLOW])
    assert decisions.allows(*asked)


def test_a_super_user_with_a_blank_beyond_ascii_is_another_user() -> None:
    assert {user.name for user in parse_super_users(" User:a\u00a0 ;\tUser:b")} == {"a\u00a0", "b"}
