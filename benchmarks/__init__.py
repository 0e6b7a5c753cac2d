"""Benchmarks: CPU, latency, start time and memory of the broker, always beside a floor in the same run."""
