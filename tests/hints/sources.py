"""Collects the hints of the program's errors and notices from its source, each as a pattern of what is printed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import bpmcli
from bpmcli.core.data.notices import TEXTS

PACKAGE = Path(bpmcli.__file__).parent
ERRORS = {"BpmError", "UsageError", "DataError", "FitError"}
ATTRIBUTES = {"how_to_log", "outcome_hint"}
"""Names of classes' attributes that are hints."""
ANY = "\0"
"""Stands for what is only known when the program runs."""
INSTRUCTION = re.compile(
    r"(?<![\w-])--?[a-z][a-z-]*|bpmcli [a-z]|pip install|python -c|\bjq |iconv|\bnp\.|[A-Z]+_[A-Z]|choose from|"
    r"^known|did you mean|keep one of|leave .* out|^(say|write) \0"
)
"""What makes a hint one that can be followed in a command line: an option, a command, code or a list of choices."""


class Hint(NamedTuple):
    """A hint in the source."""

    where: str
    text: str
    """With ANY for every part that is only known when the program runs."""

    def matches(self, printed: str) -> bool:
        return re.fullmatch(re.escape(self.text).replace(ANY, ".+"), printed, re.DOTALL) is not None


class Module:
    """The hints of one file."""

    def __init__(self, path: Path) -> None:
        self.name = path.relative_to(PACKAGE).as_posix()
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def hints(self) -> Iterator[Hint]:
        for node in ast.walk(self.tree):
            for value in _given(node):
                for text in self.texts(value, node, frozenset()):
                    yield Hint(f"{self.name}:{value.lineno}", text)

    def texts(self, value: ast.expr | None, at: ast.AST, seen: frozenset[str]) -> list[str]:  # noqa: PLR0911
        """What an expression can evaluate to."""
        match value:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.Constant():
                return []
            case ast.JoinedStr(values=parts):
                return ["".join(str(p.value) if isinstance(p, ast.Constant) else ANY for p in parts)]
            case ast.IfExp(body=body, orelse=other):
                return self.texts(body, at, seen) + self.texts(other, at, seen)
            case ast.BoolOp(values=values):
                return [text for v in values for text in self.texts(v, at, seen)]
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return [a + b for a in self.texts(left, at, seen) for b in self.texts(right, at, seen)]
            case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) if name not in seen:
                return self.assigned(name, at, seen | {name})
        return [ANY]

    def assigned(self, name: str, at: ast.AST, seen: frozenset[str]) -> list[str]:
        """All values that a name gets in the function around it or in a module; for a function, what it returns."""
        scope: ast.AST | None = at
        while (scope := self.parents.get(scope)) if scope is not None else None:
            if isinstance(scope, ast.FunctionDef | ast.Module):
                found = [text for value in _values(scope, name) for text in self.texts(value, value, seen)]
                if found:
                    return found
        for module in modules():
            if module is not self and (own := list(_values(module.tree, name, top=True))):
                return [text for value in own for text in module.texts(value, value, seen)]
        return [ANY]


def _given(node: ast.AST) -> Iterator[ast.expr]:
    """The hint of an error, one that is handed to a function which raises the error, or an attribute that is a hint."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments, keywords=keywords):
            if name in ERRORS and len(arguments) > 1:
                yield arguments[1]
            yield from (keyword.value for keyword in keywords if keyword.arg == "hint")
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in ATTRIBUTES:
            yield value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name in ATTRIBUTES:
            yield value


def _values(scope: ast.AST, name: str, top: bool = False) -> list[ast.expr]:
    """What a name stands for within a scope; with `top`, only if the module itself defines it."""
    return _named(scope, top).get(name, [])


@cache
def _named(scope: ast.AST, top: bool) -> dict[str, list[ast.expr]]:
    """The values of all names of a scope, which is searched once."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.iter_child_nodes(scope) if top else ast.walk(scope):
        match node:
            case ast.Assign(targets=targets, value=value):
                for name in dict.fromkeys(target.id for target in targets if isinstance(target, ast.Name)):
                    found.setdefault(name, []).append(value)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                # What was there before is not looked for again.
                found.setdefault(name, []).append(ast.BinOp(ast.Subscript(), ast.Add(), value))
            case ast.FunctionDef(name=name):
                returned = (n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None)
                found.setdefault(name, []).extend(returned)
    return found


@cache
def modules() -> list[Module]:
    """Every file of the program. Parsed when the hints are asked for, not when the tests are collected in every process."""
    return [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]


@cache
def collected() -> list[Hint]:
    """Every hint of the program, those of notices included."""
    found = [hint for module in modules() for hint in module.hints()]
    found += [Hint(f"notice {code}", re.sub(r"\{\w+\}", ANY, hint)) for code, (_, hint) in TEXTS.items() if hint]
    return [hint._replace(text=re.sub(f"{ANY}+", ANY, hint.text)) for hint in found]
