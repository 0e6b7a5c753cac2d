"""Faults on command: what can go wrong with brokers, their connections and their requests, for tests of clients."""
