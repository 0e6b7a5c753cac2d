"""kafka-python's message classes by name: importing them warns on Python 3.11, and warnings are errors."""

import warnings
from importlib import import_module

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka.protocol.api_message import ApiMessage

    for _module in ("admin", "consumer", "metadata", "producer", "sasl"):
        import_module(f"kafka.protocol.{_module}")

KAFKA_PYTHON: dict[str, type[ApiMessage]] = {}
for _class in ApiMessage.__subclasses__():
    KAFKA_PYTHON.setdefault(_class.__name__, _class)
# Its decoder looks for the answer to an unknown version first and can misread an answer of versions 1 and up.
del KAFKA_PYTHON["ApiVersionsResponse"]
