"""Consumer groups (KIP-848), and the members among them that speak the classic protocol."""
