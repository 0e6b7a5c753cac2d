"""A broker's place in its cluster: the sessions of its registry, its registration, connections to other brokers."""
