"""TLS: key stores and trust stores, contexts of Python's ssl, and users of client certificates."""
