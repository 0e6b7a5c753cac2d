"""What all commands share: options, sessions with a cluster, tables and JSON, error messages."""
