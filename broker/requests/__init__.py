"""Requests: from a frame to its handler and back, and the table of the APIs."""
