"""Mutation testing: changes one operator, number or condition of a module at a time, and runs the tests mapped to it.

    python benchmarks/mutants.py                          every module below, every mutant (about an hour)
    python benchmarks/mutants.py core/curves/tce.py       one module
    python benchmarks/mutants.py core/curves/tce.py --sample 20
    python benchmarks/mutants.py core/curves/tce.py --show

A mutant that no test notices shows a line that no test looks at, unless the change has no effect. Changes without an
effect are listed with the reason in benchmarks/mutants_equivalent.txt and are not counted. Not part of CI.

Modules and tests are imported once, in this process. Every mutant gets a child process, in which the code of the
changed function replaces the original one, so that everything that imported the function sees the change. If the
change lies outside of functions, the child imports the modules and tests again.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import importlib.abc
import importlib.util
import inspect
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.txt")

TESTS = {
    "core/data/binning.py": ["tests/core/data/test_binning.py", "tests/core/data/test_adding.py"],
    "core/data/adding.py": ["tests/core/data/test_adding.py"],
    "core/metrics/definitions.py": [
        "tests/core/metrics/test_definitions.py",
        "tests/core/metrics/test_decomposition.py::test_the_parts_follow_from_the_definition",
    ],
    "core/metrics/class_definitions.py": [
        "tests/core/metrics/test_definitions.py::test_scores_are_not_taken_for_calibration_errors",
        "tests/core/metrics/test_whole.py",
    ],
    "core/metrics/bin_table.py": ["tests/core/metrics/test_definitions.py", "-k", "bin_table or wilson"],
    "core/metrics/noise_floor.py": [
        "tests/core/metrics/test_definitions.py",
        "-k",
        "calibrated or cell or noise or draw",
    ],
    "core/metrics/verdict.py": [
        "tests/core/metrics/test_verdict_parts.py",
        "tests/core/metrics/test_verdict.py",
        "-k",
        "parts or known_error or numbers or standard_errors or few_rows",
    ],
    "core/metrics/verdict_words.py": ["tests/core/metrics/test_verdict_parts.py"],
    "core/metrics/decision.py": ["tests/core/metrics/test_decision.py"],
    "core/curves/tce.py": ["tests/core/curves/test_quadrature.py", "tests/core/curves/test_tce.py"],
    "core/curves/averaged/tce.py": ["tests/core/curves/test_averaged_tce.py"],
    "core/curves/bpm.py": ["tests/core/curves/test_bpm_parts.py"],
    "cli/ci_gate.py": ["tests/cli/test_gate_rules.py"],
    "cli/gate_results.py": ["tests/cli/test_gate_rules.py"],
    "io/formats/npz_file.py": ["tests/io/formats/test_npz_file.py"],
    "io/formats/reader.py": ["tests/io/formats/test_reader.py"],
    "io/formats/npy_array.py": ["tests/io/formats/test_npy_array.py"],
    "io/formats/npy_file.py": ["tests/io/formats/test_npy_file.py"],
    "io/formats/csv_file.py": ["tests/io/formats/test_csv_file.py"],
    "io/formats/csv_dialect.py": ["tests/io/formats/test_csv_dialect.py"],
    "io/formats/csv_quotes.py": ["tests/io/formats/test_csv_quotes.py"],
    "io/formats/csv_types.py": ["tests/io/formats/test_csv_types.py", "-k", "spelling or texts or decimal"],
    "io/formats/text_lines.py": ["tests/io/formats/test_text_lines.py"],
    "io/formats/text_lists.py": ["tests/io/formats/test_csv_file.py", "-k", "list or interval or tuple or brackets"],
    "io/formats/csv_columns.py": ["tests/io/formats/test_csv_file.py", "-k", "nul or expected or line_ends or json"],
}
"""The tests that should notice a change of the module. They are few and quick, because they run once per mutant."""

PATIENCE = 20
"""A mutant that makes the tests take this many times as long has been noticed."""

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
WORDS = {"left": "right", "right": "left"}
CALLS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any",
         "floor": "ceil", "ceil": "floor", "argmin": "argmax", "argmax": "argmin"}  # fmt: skip


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Every way to change one node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        new = copy.deepcopy(node)
        new.ops[0] = COMPARISONS[type(node.ops[0])]()
        yield new
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield ast.Constant(node.value + 1 if isinstance(node.value, int) else node.value * 1.5 + 0.1)
    elif isinstance(node, ast.Constant) and node.value in WORDS:
        yield ast.Constant(WORDS[node.value])
    elif isinstance(node, (ast.Name, ast.Attribute)):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in CALLS:
            new = copy.deepcopy(node)
            setattr(new, "id" if isinstance(node, ast.Name) else "attr", CALLS[name])
            yield new
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.If):
        for value in (True, False):
            new = copy.deepcopy(node)
            new.test = ast.Constant(value)
            yield new


def skipped(tree: ast.AST) -> set[int]:
    """Annotations, docstrings, sentences of errors and defaults of option lists: no arithmetic."""
    out: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = [*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs]
            parts = [node.returns, *(a.annotation for a in arguments), *node.decorator_list]
        elif isinstance(node, ast.ClassDef):
            parts = [*node.decorator_list]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif (
            isinstance(node, ast.JoinedStr)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            or (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
        ):
            parts = [node]
        for part in parts:
            out.update(id(child) for child in ast.walk(part)) if part is not None else None
    return out


class Mutant:
    """One change at one place."""

    def __init__(
        self, lines: list[str], node: ast.AST, replacement: ast.AST, function: str | None, source: str
    ) -> None:
        self.line = getattr(node, "lineno", 0)
        self.function, self.source = function, source
        self.key = f"{lines[self.line - 1].strip()} | {_shown(node)} -> {_shown(replacement)}"


def _shown(node: ast.AST) -> str:
    return ast.unparse(node.test if isinstance(node, ast.If) else node)


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a module."""
    tree = ast.parse(source)
    never, inside, found = skipped(tree), dict(places(tree)), []
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            for i, node in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(node, ast.AST) or id(node) in never:
                    continue
                for new in changes(node):
                    ast.copy_location(new, node)
                    _put(parent, name, i, new)
                    text = ast.unparse(ast.fix_missing_locations(tree))
                    _put(parent, name, i, node)
                    found.append(Mutant(source.splitlines(), node, new, inside.get(id(node)), text))
    return found


def places(node: ast.AST, prefix: str = "") -> Iterator[tuple[int, str]]:
    """The outermost function whose body a node belongs to, by the node's id."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from places(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef):
            yield from ((id(part), prefix + child.name) for line in child.body for part in ast.walk(line))
        else:
            yield from places(child, prefix)


def _put(parent: ast.AST, name: str, i: int, node: ast.AST) -> None:
    value = getattr(parent, name)
    if isinstance(value, list):
        value[i] = node
    else:
        setattr(parent, name, node)


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods that a module defines, without their decorators; clears their caches."""
    waiting, seen = list(vars(module).values()), set()
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, type) and found.__module__ == module.__name__:
            waiting += vars(found).values()
        elif isinstance(found, property):
            waiting.append(found.fget)
        elif isinstance(found, functools.cached_property):
            waiting.append(found.func)
        elif isinstance(found, (classmethod, staticmethod)):
            waiting.append(found.__func__)
        elif callable(found) and hasattr(found, "__wrapped__"):
            getattr(found, "cache_clear", int)()
            waiting.append(inspect.unwrap(found))
        elif isinstance(found, FunctionType) and found.__module__ == module.__name__:
            yield found


def codes(code: CodeType, prefix: str = "") -> Iterator[tuple[str, CodeType]]:
    """The compiled functions and methods by qualified name, without functions inside functions."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield prefix + inner.co_name, inner
            if not inner.co_flags & inspect.CO_OPTIMIZED:  # the body of a class
                yield from codes(inner, f"{prefix}{inner.co_name}.")


class Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the mutated source when the module is imported."""

    def __init__(self, module: str, path: Path, source: str) -> None:
        self.module, self.path, self.source = module, path, source

    def find_spec(self, name: str, path: object, target: object = None) -> object:
        return importlib.util.spec_from_loader(name, self, origin=str(self.path)) if name == self.module else None

    def exec_module(self, module: object) -> None:
        module.__file__ = str(self.path)  # type: ignore[attr-defined]
        exec(compile(self.source, str(self.path), "exec"), module.__dict__)


def put_in_place(module: str, path: Path, mutant: Mutant) -> None:
    """Replaces the code of the changed function, or has the changed module imported again."""
    known = {f.__qualname__: f for f in functions(sys.modules[module])}
    if mutant.function in known:
        code = dict(codes(compile(mutant.source, str(path), "exec")))[mutant.function]
        if code.co_freevars == known[mutant.function].__code__.co_freevars:
            known[mutant.function].__code__ = code
            return
    sys.meta_path.insert(0, Instead(module, path, mutant.source))
    for name, loaded in list(sys.modules.items()):
        file = getattr(loaded, "__file__", None) or ""
        if name.split(".")[0] == "bpmcli" or file.startswith(str(ROOT / "tests")):
            del sys.modules[name]


def run(tests: list[str], *more: str) -> int:
    import pytest

    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *more, *tests]))


def tests_pass(module: str, path: Path, mutant: Mutant | None, tests: list[str], seconds: float) -> bool:
    """In a child: the change is put in place, and the tests run until one fails. A child that hangs has failed."""
    child = os.fork()
    if not child:
        code = 1
        try:
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(quiet, stream)
            if mutant:
                put_in_place(module, path, mutant)
            code = run(tests)
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def known_equivalent(name: str) -> set[str]:
    """Changes of a module without an effect; the file says `line | change | reason` below the name of the module."""
    text = EQUIVALENT.read_text() if EQUIVALENT.exists() else ""
    lines = text.partition(f"\n# {name}\n")[2].partition("\n# ")[0].splitlines()
    return {line.rpartition(" | ")[0] for line in lines if line}


def score(name: str, sample: list[Mutant], tests: list[str]) -> str:
    """Tries every mutant, prints those that survive, and returns the score in words."""
    path, module = ROOT / "bpmcli" / name, "bpmcli." + name.removesuffix(".py").replace("/", ".")
    quiet, shown = os.open(os.devnull, os.O_WRONLY), os.dup(1)
    os.dup2(quiet, 1)
    assert run(tests, "--collect-only", "-qq") == 0, f"{tests} cannot be collected"
    importlib.import_module(module)
    os.dup2(shown, 1)
    begin = time.monotonic()
    assert tests_pass(module, path, None, tests, 3600), f"{tests} fail without any change"
    seconds = 10 + PATIENCE * (time.monotonic() - begin)
    equivalent, killed, alive, same = known_equivalent(name), 0, 0, 0
    for mutant in sample:
        if mutant.key in equivalent:
            same += 1
        elif tests_pass(module, path, mutant, tests, seconds):
            alive += 1
            print(f"  survives, line {mutant.line}: {mutant.key}", flush=True)
        else:
            killed += 1
    share = killed / max(1, killed + alive)
    return f"{killed} of {killed + alive} killed ({share:.0%}); {same} without effect"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=list(TESTS))
    parser.add_argument("--sample", type=int, help="this many mutants per module, drawn at random (seed 0)")
    parser.add_argument("--lines", help="only mutants on these lines: 40-60")
    parser.add_argument("--show", action="store_true", help="list the mutants and stop")
    given = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    for name in given.modules:
        every = mutants((ROOT / "bpmcli" / name).read_text())
        if given.lines:
            first, last = map(int, given.lines.split("-"))
            every = [m for m in every if first <= m.line <= last]
        sample = random.Random(0).sample(every, min(given.sample or len(every), len(every)))
        if given.show:
            print(*(f"{m.line}: {m.key}" for m in sample), sep="\n")
        else:
            print(f"{name}: {score(name, sample, TESTS[name])}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
