"""Connections to brokers: frames, requests and answers, and the metadata of a cluster."""
