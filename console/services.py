"""What all operations share: the clients of the cluster, and what only a broker of Ottla knows about itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from console.clients import Clients
from console.decoding.schema_cache import SchemaCache
from console.decoding.subject_cache import SubjectCache
from console.groups.watches import GroupWatches
from console.inside import Inside
from console.rest.bodies import Bodies
from console.rest.event_stream import EventStreams
from console.watching.observer import Observer


@dataclass(frozen=True)
class ConsoleServices:
    """The parts of one console. Handlers get them as `call.services`."""

    clients: Clients
    inside: Inside | None = None
    """The broker that serves this console; None for `ottla console`."""
    observer: Observer = field(default_factory=Observer)
    """What the console has seen of the cluster."""
    bodies: Bodies = field(default_factory=Bodies)
    """The bodies of requests that are in memory."""
    streams: EventStreams = field(default_factory=EventStreams)
    groups: GroupWatches = field(default_factory=GroupWatches)
    """The consumer groups that somebody looks at."""

    schemas: SchemaCache = field(default_factory=SchemaCache)
    """The schemas of the schema registry, if there is one."""
    subjects: SubjectCache = field(default_factory=SubjectCache)
    """What records to produce have named instead of the id of a schema."""

    async def stop_watching(self, _: object = None) -> None:
        """End what runs although nobody asks: a handler for the end of the application."""
        self.observer.close()
        await self.groups.close()
        await self.schemas.close()
