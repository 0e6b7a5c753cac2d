"""Consumer groups (KIP-848), including their members that use the classic protocol."""
