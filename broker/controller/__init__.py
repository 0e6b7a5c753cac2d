"""The controller: its election, its event queue, and its requests to the brokers."""
