"""The options of `consume` and `produce` that name schemas."""

from dataclasses import dataclass, field
from typing import Annotated, Final

import typer

BY_ID: Final = "registry"
"""In `consume`: the schema whose id each record contains."""
RAW: Final = "none"
"""In `consume`: no schema."""
REGISTRY_OPTION: Final = "--schema-registry"

Registry = Annotated[
    str | None,
    typer.Option(REGISTRY_OPTION, metavar="URL", help="A schema registry; user and password may be in the URL."),
]


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """The options of `consume`: FILE, BY_ID or RAW for key and value, and the URL of the registry."""

    key_schema: str | None
    value_schema: str | None
    registry: str | None = field(repr=False)
    keep_going: bool

    @property
    def is_used(self) -> bool:
        """Whether there is anything to decode."""
        return self.key_schema is not None or self.value_schema is not None or self.registry is not None


@dataclass(frozen=True, slots=True)
class EncodingOptions:
    """The options of `produce`: FILE, ID or SUBJECT for key and value, and the URL of the registry."""

    key_schema: str | None
    value_schema: str | None
    registry: str | None = field(repr=False)

    @property
    def is_used(self) -> bool:
        """Whether there is anything to encode."""
        return self.key_schema is not None or self.value_schema is not None
