"""Moves of replicas: assignments in files, log directories, and the throttle."""
