"""Python imports this when it starts, if this folder is on PYTHONPATH: the processes of the tests are late, too."""

import os
import sys

if seed := os.environ.get("OTTLA_PERTURB"):
    from late_loop import install

    install(seed, output="pytest" not in sys.orig_argv)
