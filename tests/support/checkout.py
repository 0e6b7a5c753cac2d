"""Which tests need the checkout, and which the wheel: `make test-wheel` runs tests with the wheel only."""

from pathlib import Path

import pytest

import ottla
from support.fork_server import ROOT

IN_CHECKOUT = Path(ottla.__file__).resolve().parents[1] == ROOT

checkout_only = pytest.mark.skipif(not IN_CHECKOUT, reason="needs the files of the checkout")
wheel_only = pytest.mark.skipif(IN_CHECKOUT, reason="runs in make test-wheel")
