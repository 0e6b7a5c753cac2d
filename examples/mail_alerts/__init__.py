"""Alerts from Kafka topics, sent as mails: see README.md beside this file."""
