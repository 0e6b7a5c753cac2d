"""The `ottla` command: from arguments to an exit code.

If the command fails, it prints one line on standard error and the exit code is not 0 (1, with few exceptions).
`ottla broker` does not use Typer, because importing Typer costs as much as importing the broker; all other commands
are a Typer application, which is built on demand.
"""

import os
import sys
from collections.abc import Sequence

from ottla.guard import ShadowedPackageError, check_packages

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` (default: the arguments of the process) and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        check_packages()  # before `client` and the other packages are imported
        if words[:1] == ["broker"] and "--help" not in words and "-h" not in words:
            from ottla.command_line.broker_arguments import run_from_arguments

            return run_from_arguments(words[1:])
        from ottla.app import run_app  # Typer takes 0.1 s and 10 MB, which `ottla broker` does not need

        return run_app(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        from ottla.command_line.output import discard

        discard(sys.stdout)
        return 0
    except ShadowedPackageError as error:
        return _fail(str(error))
    except Exception as error:  # the outermost frame: the user sees no traceback
        if os.environ.get("OTTLA_DEBUG"):
            raise
        from ottla.command_line.failure import CommandError, explain

        return _fail(explain(error), error.exit_code if isinstance(error, CommandError) else 1)


def _fail(line: str, exit_code: int = 1) -> int:
    sys.stdout.flush()
    if line:  # empty if Typer has shown the help instead
        print(f"ottla: {line}", file=sys.stderr)
    return exit_code
