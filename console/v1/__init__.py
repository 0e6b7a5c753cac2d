"""The REST API `/api/v1`: what the console's pages need beyond `/v3`."""
