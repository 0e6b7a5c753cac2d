"""CRC-32C for record batches, from the extension module of the `crc32c` package.

At import the package reads its own version with importlib.metadata. This takes about 50 ms of the 0.5 s from a broker's
start to the first message. So the extension module is loaded without the package; if it is not found under its name,
the package is imported.
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
"""Return the CRC-32C of the bytes."""
