"""What metrics are read as."""

Readings = list[tuple[tuple[str, ...], float]]
"""Label values, and the value."""
