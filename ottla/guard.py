"""Makes sure that `client`, `storage` and the others are Ottla's own.

Ottla's packages have plain names. A file `client.py` in the directory that Python was started in, or
another distribution with such a package, would be imported in their place and fail somewhere deep inside;
this says so in one line instead.
"""

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("broker", "client", "protocol", "registry", "replication", "storage")


class ShadowedPackageError(ImportError):
    """Something else has the name of one of Ottla's packages; the message names both places."""


def check_packages() -> None:
    """Raise ShadowedPackageError unless every package lies beside this one."""
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
