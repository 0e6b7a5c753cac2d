"""Kafka's AclAuthorizer: ACLs in the registry, super users, and `allow.everyone.if.no.acl.found`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from broker.authorization.acl_selection import AclSelection, NumberedFilter, first_match
from broker.authorization.acl_store import AclStore
from broker.authorization.authorizer import AclAuthorizer
from broker.errors import RequestError
from client.wire.backoff import Backoff
from protocol.error_codes import ErrorCode
from registry.interface import Registry
from registry.pipeline import read_all
from security.acls.binding import CLUSTER_NAME, AccessRule, AclBinding, AclFilter, ResourcePattern
from security.acls.decision import AclDecisions, parse_acl_principal
from security.acls.rules import AclRules
from security.acls.types import Operation, ResourceType
from security.principal import Principal


class RegistryAuthorizer(AclAuthorizer):
    """The authorizer of `authorizer.class.name=kafka.security.authorizer.AclAuthorizer`."""

    def __init__(
        self,
        settings: Mapping[str, str],
        registry: Registry,
        super_users: frozenset[Principal],
        *,
        allows_without_acls: bool,
        now_ms: Callable[[], int],
        backoff: Backoff,
    ) -> None:
        super().__init__(settings)
        self.rules = AclRules()
        self.store = AclStore(registry, self.rules, lambda: self.changed(), now_ms, backoff)
        self._decisions = AclDecisions(self.rules, super_users, allows_without_acls=allows_without_acls)

    async def start(self) -> None:
        """Read all ACLs."""
        await self.store.start()

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """See `Authorizer`."""
        return self._decisions.allows(principal, host, operation, resource_type, name)

    def allows_any(self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """See `Authorizer`."""
        return self._decisions.allows_any(principal, host, operation, resource_type)

    def describe(self, acl_filter: AclFilter) -> Iterable[AclBinding]:
        """See `AclAuthorizer`."""
        return self.rules.selected(acl_filter)

    async def create(self, bindings: Sequence[AclBinding]) -> list[Exception | None]:
        """See `AclAuthorizer`. The ACLs of one pattern are written at once, and patterns concurrently."""
        errors: dict[int, Exception] = {}
        by_pattern: dict[ResourcePattern, dict[int, AccessRule]] = {}
        for number, (pattern, rule) in enumerate(bindings):
            try:
                _check(pattern, rule)
            except (RequestError, ValueError) as error:
                errors[number] = error
            else:
                by_pattern.setdefault(pattern, {})[number] = rule

        async def add(pattern: ResourcePattern) -> None:
            rules = by_pattern[pattern]
            try:
                await self.store.update(pattern, frozenset(rules.values()).union)
            except Exception as error:
                errors.update(dict.fromkeys(rules, error))

        await read_all(add, list(by_pattern))
        return [errors.get(number) for number in range(len(bindings))]

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[AclBinding] | Exception]:
        """See `AclAuthorizer`. An ACL that several filters select is in the answer of the first."""
        selection = AclSelection(filters)
        deleted: dict[int, list[AclBinding]] = {number: [] for number in range(len(filters))}
        errors: dict[int, Exception] = {}

        async def remove(pattern: ResourcePattern) -> None:
            selected = await selection.of(pattern)
            if not selected:
                return
            try:
                found = await self._delete_from(pattern, selection, selected)
            except Exception as error:
                errors.update((one.number, error) for one in selected)
                return
            for number, binding in found:
                deleted[number].append(binding)

        await read_all(remove, selection.candidates(self.rules.patterns()))
        return [errors.get(selection.first_of(number), deleted[number]) for number in range(len(filters))]

    async def _delete_from(
        self, pattern: ResourcePattern, selection: AclSelection, selected: Sequence[NumberedFilter]
    ) -> list[tuple[int, AclBinding]]:
        """Delete the rules of one pattern that filters match; return them with the number of the filter."""
        known = await selection.matches(selected, self.rules.rules_of(pattern))
        removed: list[tuple[int, AclBinding]] = []

        def remove(rules: frozenset[AccessRule]) -> frozenset[AccessRule]:
            removed.clear()  # another attempt after a conflict
            for rule in sorted(rules):  # a rule that is not known has been added by another broker in this moment
                number = known[rule] if rule in known else first_match(selected, rule)
                if number is not None:
                    removed.append((number, AclBinding(pattern, rule)))
            return rules - {binding.rule for _, binding in removed}

        await self.store.update(pattern, remove)
        return removed

    async def run(self) -> None:
        """Follow the changes of other brokers until cancelled."""
        await self.store.run()


def _check(pattern: ResourcePattern, rule: AccessRule) -> None:
    """Raise RequestError or ValueError for an ACL that cannot be stored."""
    if not pattern.name:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        why = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        raise RequestError(ErrorCode.INVALID_REQUEST, why)
    if "/" in pattern.name:
        raise RequestError(ErrorCode.INVALID_REQUEST, "the name of a resource must not contain a slash")
    parse_acl_principal(rule.principal)
