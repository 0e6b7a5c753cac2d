"""Moves packages into another package: rewrites the imports of a source, and finds the names that it cannot rewrite.

`from storage.log.log import Log` becomes `from ottla.storage.log.log import Log`; `import storage.errors`, which binds
`storage`, becomes `import ottla.storage.errors, ottla.storage as storage`. Comments stay, and so does every line's
number. In docstrings, names of modules are rewritten. A name of a module in another string is an error: a program that
needs one derives it from a module (`__package__`, `__spec__`), which is right before and after the move.
"""

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import libcst as cst

_NAMING: Final = frozenset({"__import__", "find_spec", "getLogger", "import_module", "resolve_name", "run_module"})
"""Functions whose first argument is the name of a module. Loggers are named after modules."""

_BLOCKS: Final = (
    *(cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite, cst.SimpleStatementLine),
    *(cst.ClassDef, cst.FunctionDef, cst.If, cst.Else, cst.For, cst.While, cst.With),
    *(cst.Try, cst.TryStar, cst.ExceptHandler, cst.ExceptStarHandler, cst.Finally, cst.Match, cst.MatchCase),
    *(cst.Import, cst.ImportFrom),
)
"""Where imports and docstrings are. To visit every expression takes ten times as long."""


class RelocationError(Exception):
    """A source names a moved module in a way that cannot be rewritten; the message says where, and what to do."""


class Relocation:
    """The move of some top-level packages into the package `home`."""

    def __init__(self, modules: Collection[str], home: str, kept: Collection[str]) -> None:
        """modules: the dotted names of all modules; kept: the top-level packages that stay."""
        self.home = home
        self.moved = frozenset(name.partition(".")[0] for name in modules) - {*kept}
        self._known = frozenset(".".join(name.split(".")[:2]) for name in modules)
        names = "|".join(sorted(map(re.escape, self.moved))) or r"(?!)"
        self._dotted = re.compile(rf"(?<![\w./-])(?:{names})\.\w+")
        self._started = re.compile(rf"(?<= -m )(?:{names})\b(?!\.\w)")

    def name(self, dotted: str) -> str:
        """Return the new name of a module, or of what a module contains."""
        return f"{self.home}.{dotted}" if re.split(r"[.:]", dotted, maxsplit=1)[0] in self.moved else dotted

    def rewrite(self, source: str, where: str, *, strings: bool = False) -> str:
        """Return the source with the new names.

        where: names the source in errors. strings: also rewrite names of modules in strings, as tests have them.
        Raises RelocationError.
        """
        if not strings:
            self.check_strings(source, where)
        return cst.parse_module(source).visit(_Rewriter(self, strings=strings)).code

    def rewrite_text(self, text: str) -> str:
        """Return prose, or code in a string, with the new names of the modules in it."""
        known = self._known
        text = self._dotted.sub(lambda found: self.name(found[0]) if found[0] in known else found[0], text)
        return self._started.sub(lambda found: self.name(found[0]), text)

    def check_strings(self, source: str, where: str) -> None:
        """Raise RelocationError if a string in the source names a moved module and is not a docstring."""
        for line, text in self._unclear_names(ast.parse(source)):
            raise RelocationError(
                f"{where}:{line}: the string {text!r} names a module that is {self.home}.… in the wheel: "
                "derive the name from __package__ or from a module, or import the module"
            )

    def _unclear_names(self, tree: ast.Module) -> Iterator[tuple[int, str]]:
        """Yield the line and the text of each string that names a moved module and is not a docstring."""
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                if self.rewrite_text(node.value) != node.value:
                    yield node.lineno, node.value
            elif isinstance(node, ast.Call) and _function_name(node.func) in _NAMING and node.args:
                for text in _constants(node.args[0]):
                    if text.partition(".")[0] in self.moved:
                        yield node.lineno, text
            elif isinstance(node, (ast.Tuple, ast.List, ast.Call)):
                for word in _started_modules(node.args if isinstance(node, ast.Call) else node.elts):
                    if word in self.moved:
                        yield node.lineno, word


def _function_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _constants(argument: ast.expr) -> Iterator[str]:
    """Yield the string that an expression is, or that an f-string begins with."""
    first = argument.values[0] if isinstance(argument, ast.JoinedStr) and argument.values else argument
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        yield first.value


def _started_modules(words: Sequence[ast.expr]) -> Iterator[str]:
    """Yield the string that follows "-m" in the words of a command line."""
    for option, module in pairwise(words):
        if isinstance(option, ast.Constant) and option.value == "-m":
            yield from _constants(module)


class _Rewriter(cst.CSTTransformer):
    def __init__(self, relocation: Relocation, *, strings: bool) -> None:
        super().__init__()
        self._relocation = relocation
        self._strings = strings

    def on_visit(self, node: cst.CSTNode) -> bool:
        return self._strings or isinstance(node, _BLOCKS)

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        if updated_node.module is None or updated_node.relative:
            return updated_node
        return updated_node.with_changes(module=self._prefixed(updated_node.module))

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> cst.Import:
        aliases: list[cst.ImportAlias] = []
        for alias in updated_node.names:
            module = self._prefixed(alias.name)
            if module is alias.name:
                aliases.append(alias)
            elif alias.asname is not None:
                aliases.append(alias.with_changes(name=module))
            else:
                aliases += _with_binding(alias, module)
        return updated_node.with_changes(names=aliases)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        match updated_node.body:
            case [cst.Expr(value=cst.SimpleString() as docstring) as statement]:
                text = self._relocation.rewrite_text(docstring.value)
                return updated_node.with_changes(
                    body=[statement.with_changes(value=docstring.with_changes(value=text))]
                )
        return updated_node

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.SimpleString:
        return updated_node.with_changes(value=self._relocation.rewrite_text(updated_node.value))

    def leave_FormattedStringText(
        self, original_node: cst.FormattedStringText, updated_node: cst.FormattedStringText
    ) -> cst.FormattedStringText:
        return updated_node.with_changes(value=self._relocation.rewrite_text(updated_node.value))

    def _prefixed(self, module: cst.BaseExpression) -> Any:
        if isinstance(module, cst.Name):
            if module.value not in self._relocation.moved:
                return module
            return cst.Attribute(cst.Name(self._relocation.home), module)
        assert isinstance(module, cst.Attribute)
        value = self._prefixed(module.value)
        return module if value is module.value else module.with_changes(value=value)


def _with_binding(alias: cst.ImportAlias, module: cst.Attribute) -> Iterator[cst.ImportAlias]:
    """Yield `import ottla.storage.errors, ottla.storage as storage` for what was `import storage.errors`."""
    top = module
    while isinstance(top.value, cst.Attribute):
        top = top.value
    if top is not module:
        yield cst.ImportAlias(module, comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    yield cst.ImportAlias(top, cst.AsName(top.attr), comma=alias.comma)
