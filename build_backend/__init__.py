"""Builds the wheel (PEP 517): setuptools' backend, and then Ottla's packages are moved into `ottla`."""
