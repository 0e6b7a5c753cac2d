"""Verification of log files, and their repair."""
