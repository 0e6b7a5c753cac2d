"""Generates the constructor of a message, with a keyword argument and a default for each field."""

from __future__ import annotations

from protocol.message import NO_TAGS, Message
from protocol.source import Source, default_source, is_shared


def compile_constructor(cls: type[Message]) -> None:
    """Set the class's generated `__init__`, which replaces the one inherited from `Message`."""
    source = Source(f"{cls.NAME} constructor")
    source.names.update(NO_TAGS=NO_TAGS, UNSET=())
    parameters = ["self", "*", "unknown_tags=NO_TAGS"]
    body = ["self.unknown_tags = unknown_tags"]
    for field in cls.FIELDS:
        value = name = field.name
        default = default_source(source, field)
        if not is_shared(field):
            value = f"{default} if {name} is UNSET else {name}"
            default = "UNSET"
        parameters.append(f"{name}={default}")
        body.append(f"self.{name} = {value}")
    with source.block(f"def __init__({', '.join(parameters)}):"):
        for line in body:
            source.line(line)
    constructor = source.build("__init__")
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    constructor.__module__ = cls.__module__
    cls.__init__ = constructor  # type: ignore[method-assign]
