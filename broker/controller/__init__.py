"""The controller: election, its event queue, and what it tells the brokers."""
