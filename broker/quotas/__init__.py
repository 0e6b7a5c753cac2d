"""Client quotas: limits of byte rates, request time, changes of topics and new connections."""
