"""One file an API: its request, its response and their structs."""
