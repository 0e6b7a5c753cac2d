"""All ACLs of a cluster, and what they allow.

The rules are those of Kafka's AclAuthorizer: a deny that matches wins over every allow; patterns are literal names, `*`
or prefixes; some allowed operations imply others (`IMPLIED_BY`), denied ones do not. Principals and hosts are compared
exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from security.acls.binding import ANY_NAME, ANY_USER, AccessRule, AclBinding, AclFilter, ResourcePattern
from security.acls.names import NameSet
from security.acls.types import Operation, Permission, ResourceType
from security.addresses import normal_address

IMPLIED_BY = {
    Operation.DESCRIBE: (
        Operation.DESCRIBE,
        Operation.READ,
        Operation.WRITE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.ALL,
    ),
    Operation.DESCRIBE_CONFIGS: (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL),
}
"""The operations that allow another one, where this is not only the operation itself and ALL."""

_RuleKey = tuple[ResourceType, AccessRule]


class AclRules:
    """The ACLs, by pattern, with an index by rule: a decision makes the same few look-ups for any number of ACLs."""

    def __init__(self) -> None:
        self._rules: dict[ResourcePattern, frozenset[AccessRule]] = {}
        self._names: dict[_RuleKey, NameSet] = {}
        self._known: dict[ResourceType, NameSet] = {}

    def rules_of(self, pattern: ResourcePattern) -> frozenset[AccessRule]:
        """Return the rules of a pattern; empty if it has none."""
        return self._rules.get(pattern, frozenset())

    def set(self, pattern: ResourcePattern, rules: Iterable[AccessRule]) -> bool:
        """Replace the rules of a pattern. Return whether anything changed."""
        old, new = self.rules_of(pattern), frozenset(rules)
        old_indexed, new_indexed = _indexed(old), _indexed(new)
        for rule in old_indexed - new_indexed:
            names = self._names[pattern.resource_type, rule]
            names.discard(pattern)
            if not names:
                del self._names[pattern.resource_type, rule]
        for rule in new_indexed - old_indexed:
            self._names.setdefault((pattern.resource_type, rule), NameSet()).add(pattern)
        known = self._known.setdefault(pattern.resource_type, NameSet())
        if new:
            self._rules[pattern] = new
            known.add(pattern)
        else:
            self._rules.pop(pattern, None)
            known.discard(pattern)
        return old != new

    def patterns(self) -> list[ResourcePattern]:
        """Return the patterns that have rules."""
        return list(self._rules)

    def selected(self, acl_filter: AclFilter) -> Iterator[AclBinding]:
        """Yield the bindings that a filter selects."""
        only = acl_filter.only_pattern
        for pattern in list(self._rules) if only is None else [only]:
            if acl_filter.selects(pattern):
                for rule in self.rules_of(pattern):
                    if acl_filter.matches(rule):
                        yield AclBinding(pattern, rule)

    def have_any_for(self, resource_type: ResourceType, name: str) -> bool:
        """Whether any rule, for any user, covers this resource."""
        known = self._known.get(resource_type)
        return known is not None and name in known

    def allow(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the ACLs allow an operation, and none denies it."""
        if any(name in names for names in self._matching(Permission.DENY, principal, host, operation, resource_type)):
            return False
        return any(
            name in names
            for allowing in IMPLIED_BY.get(operation, (operation, Operation.ALL))
            for names in self._with_operation(Permission.ALLOW, principal, host, allowing, resource_type)
        )

    def deny_all(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the operation is denied on `*`."""
        denied = self._matching(Permission.DENY, principal, host, operation, resource_type)
        return any(ANY_NAME in names.literals for names in denied)

    def allow_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the operation is allowed by a pattern that no deny covers completely.

        The resource need not exist. For idempotent producers, which name no topic.
        """
        if self.deny_all(principal, host, operation, resource_type):
            return False
        denied = list(self._matching(Permission.DENY, principal, host, operation, resource_type))

        def is_dominated(name: str) -> bool:
            return any(names.has_prefix_of(name) for names in denied)

        for names in self._matching(Permission.ALLOW, principal, host, operation, resource_type):
            if any(not is_dominated(prefix) for prefix in names.prefixes):
                return True
            for literal in names.literals:
                is_denied = any(literal in one.literals for one in denied) or is_dominated(literal)
                if literal == ANY_NAME or not is_denied:
                    return True
        return False

    def _matching(
        self, permission: Permission, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> Iterator[NameSet]:
        for one in (operation, Operation.ALL):
            yield from self._with_operation(permission, principal, host, one, resource_type)

    def _with_operation(
        self, permission: Permission, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> Iterator[NameSet]:
        for who in (principal, ANY_USER):
            for where in (host, ANY_NAME):
                names = self._names.get((resource_type, AccessRule(who, where, operation, permission)))
                if names is not None:
                    yield names


def _indexed(rules: frozenset[AccessRule]) -> frozenset[AccessRule]:
    """Return the rules with hosts in one form: Java writes IPv6 addresses in another one."""
    return frozenset(rule._replace(host=normal_address(rule.host)) for rule in rules)
