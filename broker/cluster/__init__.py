"""A broker in its cluster: its registry sessions, its registration, and connections to other brokers."""
