"""The daemon: network, API table, controller, console."""
