"""SASL mechanisms without sockets: bytes in, bytes out, for brokers and clients."""
