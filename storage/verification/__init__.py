"""Verification and repair of log files."""
