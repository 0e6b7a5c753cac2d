"""The three commands to try on a new broker: said at its start and on the page of a console without topics."""

from __future__ import annotations

DEFAULT_SERVERS = "127.0.0.1:9092"
"""Where the `ottla` command looks for a broker by itself."""


def first_commands(bootstrap_servers: str) -> list[str]:
    """Create a topic, write to it, read it, as lines for a shell."""
    option = "" if bootstrap_servers == DEFAULT_SERVERS else f" --bootstrap-server {bootstrap_servers}"
    return [
        f"ottla topics create hello --partitions 3{option}",
        f"echo 'k1:first message' | ottla produce hello --key-separator :{option}",
        f"ottla consume hello --from-beginning{option}",
    ]
