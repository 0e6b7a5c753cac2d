"""Answers to the completion script of a shell, which runs `ottla` with `_OTTLA_COMPLETE=complete_bash`.

Typer finds the completions. Two things are added:

- Nothing but completions is printed: no error and no warning of the client.
- Bash splits words at ":" and "=" (COMP_WORDBREAKS). The parts are joined before Typer parses them, and what comes
  before the current part is removed from the answers, because bash replaces only the current part. Characters that are
  special to a shell are escaped.
"""

import contextlib
import io
import os
import re
from collections.abc import Callable
from typing import Final

VARIABLE: Final = "_OTTLA_COMPLETE"
_BREAK: Final = re.compile(r"[:=]+")
_SPECIAL: Final = re.compile(r"[^\w@%+=:,./~-]")


def complete(answer: Callable[[], object]) -> int:
    """Print the completions that `answer`, which is Typer's, prints; return the exit code, which fish reads."""
    is_bash = os.environ[VARIABLE] == "complete_bash"
    done, is_quoted = _join_words() if is_bash else ("", True)
    code: object = 0
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()):
        try:
            answer()
        except SystemExit as end:
            code = end.code
        except Exception:  # an error is reported when the command runs
            code = 1
    for line in filter(None, printed.getvalue().splitlines()):
        rest = line.removeprefix(done)
        print(rest if is_quoted else _SPECIAL.sub(r"\\\g<0>", rest))
    return code if isinstance(code, int) else 0


def _join_words() -> tuple[str, bool]:
    """Join the words of bash in COMP_WORDS.

    Return what a completion of the current word begins with, before the part that bash completes, and whether the user
    has begun a quoted word.
    """
    parts = os.environ["COMP_WORDS"].split("\n")[: int(os.environ["COMP_CWORD"]) + 1]  # as Typer's script sets them
    words: list[str] = []
    done = ""
    after_break = False
    for part in parts:
        is_break = bool(words) and _continues(words[-1], part)
        if is_break:
            words[-1] += part
            done = words[-1]
        elif after_break and not part.startswith("-"):
            done = words[-1]
            words[-1] += part
        else:
            done = ""
            words.append(part)
        after_break = is_break
    os.environ["COMP_WORDS"] = "\n".join(words)
    os.environ["COMP_CWORD"] = str(len(words) - 1)
    if done.startswith("--"):  # --topic=ord: a completion is a value without the option
        done = done.partition("=")[2]
    return done, parts[-1].startswith(("'", '"'))


def _continues(word: str, part: str) -> bool:
    """Return whether `part` is a break inside `word`, and not a value of its own, as in `--key-separator :`."""
    if _BREAK.fullmatch(part) is None:
        return False
    return not word.startswith("-") or (word.startswith("--") and part.startswith("="))
