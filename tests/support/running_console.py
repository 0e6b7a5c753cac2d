"""`ottla console` as a process."""

from support.running_registry import RunningRegistry


class RunningConsole(RunningRegistry):
    """The command as a process; `value("url")` is what it prints."""

    last_words = "  curl "
