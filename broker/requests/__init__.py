"""Requests: from a frame to a handler and back, and the table of the APIs."""
