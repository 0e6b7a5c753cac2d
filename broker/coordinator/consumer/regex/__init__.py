"""Regular expressions of clients in the syntax of RE2, matched in time linear in the text (KIP-848)."""
