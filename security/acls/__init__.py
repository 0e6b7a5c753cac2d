"""Access control lists: what they are, how filters select them, and what they allow."""
