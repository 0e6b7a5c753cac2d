"""Scripts and styles of the console without comments, spaces and long local names.

A clone serves them as they are written; the wheel has what tdewolff-minify makes of them. That library is required for
builds on Linux only, up to Python 3.14, as that of the published wheel: it is not there for every system. Without it,
the files stay as they are.
"""

from pathlib import PurePosixPath
from typing import Final

MEDIA_TYPES: Final = {".js": "application/javascript", ".css": "text/css"}


class AssetError(Exception):
    """A script or style cannot be read; the message names the file."""


def is_asset(path: str) -> bool:
    """Return whether a file of the wheel is a script or a style."""
    return PurePosixPath(path).suffix in MEDIA_TYPES


def minified(data: bytes, path: str) -> bytes:
    """Return a script or style that does the same and is smaller. Raises AssetError."""
    try:
        import minify
    except ImportError:
        return data
    try:
        text: str = minify.string(MEDIA_TYPES[PurePosixPath(path).suffix], data.decode())
    except Exception as error:
        raise AssetError(f"{path}: {error}") from error
    return text.encode()
