"""Listeners and connections: frames in, answers out."""
