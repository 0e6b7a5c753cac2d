"""CRC-32C for record batches, out of the `crc32c` package's extension.

The package itself asks importlib.metadata for its own version when it is imported, which costs some 50 ms of
the 0.5 s that a broker has from its start to the first message. So the extension inside it is loaded by
itself; where it is not found under its name, the package is imported as usual.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Final

from protocol.buffer import Buffer


def _load() -> Callable[[Buffer], int]:
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None:
        spec = PathFinder.find_spec("_crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = spec.loader.create_module(spec)
            if module is not None:
                spec.loader.exec_module(module)
                function: Callable[[Buffer], int] = module.crc32c
                return function
    from crc32c import crc32c

    return crc32c


crc32c: Final = _load()
"""The CRC-32C of the bytes given."""
