"""The broker: network, API table, controller, coordinators, console."""
