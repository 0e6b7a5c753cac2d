"""The coordinators of groups and of transactions: state machines whose logs are internal topics."""
