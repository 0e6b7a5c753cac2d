"""The tables of broker settings, one module a subject."""
