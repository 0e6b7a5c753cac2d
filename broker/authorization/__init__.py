"""Authorization: who may do what. Authorizers, the table of what each API needs, and the audit log."""
