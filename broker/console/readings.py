"""The type of the values read for a metric."""

Readings = list[tuple[tuple[str, ...], float]]
"""A list of label values and the metric's value for them."""
