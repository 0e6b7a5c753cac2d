"""Listener containers: a function is called with each record, and offsets are committed after it returns."""
