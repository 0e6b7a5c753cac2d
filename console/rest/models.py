"""What the models of all operations share: links, metadata and lists.

Answers are made by us; requests forbid names that they do not have, so that a misspelt name is an error.
"""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from console.rest.errors import RestError


class Answer(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(defer_build=True)

    def to_json(self) -> bytes:
        """Return the body of the answer."""
        return self.model_dump_json(by_alias=True).encode()


class Asked(BaseModel):
    """A part of a request. Errors do not show what was sent: it may be a password."""

    model_config = ConfigDict(extra="forbid", defer_build=True, hide_input_in_errors=True)


def parsed(model: type[Asked], body: bytes) -> Asked:
    """Return the body of a request. Raises RestError with the first names and rules that are broken."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, one['loc'])) or 'the body'}: {one['msg']}" for one in error.errors()[:3]]
        raise RestError(400, "; ".join(problems)) from None


A = TypeVar("A", bound=Answer)
Name = Annotated[str, StringConstraints(min_length=1)]


def _is_none(value: object) -> bool:
    return value is None


OMITTED_IF_NONE = Field(default=None, exclude_if=_is_none)
"""An optional field that an answer does not have, rather than null."""


class Related(Answer):
    """A link to a resource."""

    related: str


class Metadata(Answer):
    """The address of a resource, and its name (a CRN)."""

    url: str = Field(serialization_alias="self")
    resource_name: str | None


class ListMetadata(Answer):
    """The address of a list. Lists have one page: `next` is null."""

    url: str = Field(serialization_alias="self")
    next: str | None = None


class Listing(Answer, Generic[A]):
    """A list of resources. Subclasses have the `kind`."""

    metadata: ListMetadata
    data: list[A]


class ErrorAnswer(Answer):
    """The body of every answer that is not successful."""

    error_code: int
    message: str
