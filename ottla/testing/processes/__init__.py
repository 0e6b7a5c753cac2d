"""Faults of brokers that are processes: `ottla cluster --control-port`."""
