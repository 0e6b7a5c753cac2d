"""One file an API: its handler and what it needs."""
