"""A group of commands, such as `ottla` or `ottla topics`: aliases, near names, options before the command."""

from typing import Any, Final

from typer.core import TyperGroup

from ottla.command_line.global_options import prepare

_ALIASES: Final = {"ls": "list"}


class CommandGroup(TyperGroup):
    """Finds `list` by `ls`, and `topics` by `topic` (or `profile` by `profiles`)."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and the remaining arguments. Raises CommandError for an unknown name."""
        name = self._name(args[0])
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            from ottla.command_line.failure import CommandError, suggest  # takes 10 ms; not for --help

            near = suggest(name, list(self.commands)) or f"; `{ctx.command_path} --help` lists the commands"
            raise CommandError(f"No such command '{name}'{near}")
        found, command, rest = super().resolve_command(ctx, [name, *args[1:]])
        if command is not None:
            command = self.loaded(name, command)
            prepare(ctx, command)
        return found, command, rest

    def loaded(self, name: str, command: Any) -> Any:
        """Return the command to run; a subclass can load it here."""
        return command

    def _name(self, typed: str) -> str:
        """Return the name of the command for what was typed; that itself if no command has it."""
        likely = (typed, _ALIASES.get(typed, typed), f"{typed}s", typed.removesuffix("s"))
        return next((name for name in likely if name in self.commands), typed)
