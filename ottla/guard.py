"""Check that `client`, `storage` and the other packages are Ottla's own.

In a clone, also in one that is installed with `pip install -e`, Ottla's packages have common names. Python would import
a file `client.py` in its start directory, or a package of another distribution, instead of Ottla's package, and fail
later with a confusing error. This check fails first, with a message of one line.

In a wheel the packages are in `ottla` (build_backend/README.md), where no other module hides them.
"""

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("broker", "client", "console", "protocol", "registry", "replication", "security", "storage")


class ShadowedPackageError(ImportError):
    """Another module has the name of one of Ottla's packages; the message names both paths."""


def check_packages() -> None:
    """Raise ShadowedPackageError unless all of Ottla's packages are in the same directory as this one, or inside it."""
    if find_spec(f"{__package__}.client") is not None:
        return
    home = Path(__file__).resolve().parent.parent
    for name in PACKAGES:
        try:
            spec = find_spec(name)
        except ValueError:  # a module put into sys.modules by hand
            spec = None
        if spec is None or spec.origin is None:
            raise ShadowedPackageError(f"Ottla's package {name!r} is missing beside {home / 'ottla'}: install again")
        if Path(spec.origin).resolve().parent != home / name:
            raise ShadowedPackageError(
                f"{spec.origin} hides Ottla's own package {name!r} in {home}: "
                "rename it, or start Python from another directory"
            )
