"""The PEP 517 backend: setuptools' own, except that `build_wheel` moves the packages into `ottla`.

An editable install and a source distribution keep the layout of the repository.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from build_backend.wheel import relocate_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def build_wheel(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the relocated wheel in a directory, and return its file name (PEP 517)."""
    with tempfile.TemporaryDirectory() as work:
        # A build folder of its own: ./build may contain files of an earlier version, which setuptools would include.
        settings = dict(config_settings or {})
        given = settings.get("--build-option", [])
        settings["--build-option"] = [*([given] if isinstance(given, str) else given), "build", f"--build-base={work}"]
        name: str = build_meta.build_wheel(work, settings, metadata_directory)
        relocate_wheel(Path(work, name), Path(wheel_directory, name))
    return name
