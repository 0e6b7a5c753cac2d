"""Operations over HTTP: a table row, from a request to its handler and back, errors, OpenAPI."""
