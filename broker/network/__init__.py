"""Listeners and connections: frames are received, answers are sent."""
