"""The front door: the `ottla` command and the public API."""
