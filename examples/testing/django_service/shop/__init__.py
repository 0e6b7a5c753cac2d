"""A small Django project: a shop that publishes orders and consumes payments."""
