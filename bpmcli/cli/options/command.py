"""Turns a function that asks for groups of options into a command whose --help shows them under headings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import wraps
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand

from bpmcli.errors import UsageError
from bpmcli.record import Record

OTHER = "Other"
"""Heading of options that belong nowhere else, such as --help; always the last heading."""

MAY_BE_EMPTY = ("title",)
"""Options for which no text at all is a value."""

Group = TypeVar("Group", bound=type)


def under(heading: str) -> Callable[[Group], Group]:
    """Gives a group of options the heading under which --help shows it."""

    def give(group: Group) -> Group:
        group.heading = heading  # type: ignore[attr-defined]
        return group

    return give


class Use(Record):
    """The options that a command takes from a group, and their differences from the group's own declaration."""

    names: frozenset[str]
    """The options to take; empty for all of them."""
    left_out: frozenset[str] = frozenset()
    help: Mapping[str, str] = {}
    default: Mapping[str, Any] = {}

    def takes(self, name: str) -> bool:
        return name not in self.left_out and (not self.names or name in self.names)


def only(*names: str, help: Mapping[str, str] | None = None, default: Mapping[str, Any] | None = None) -> Use:
    """Take these options of a group (all if none is named), some with another help text or default."""
    return Use(frozenset(names), help=help or {}, default=default or {})


def without(*names: str, help: Mapping[str, str] | None = None, default: Mapping[str, Any] | None = None) -> Use:
    """Take every option of a group except these."""
    return Use(frozenset(), frozenset(names), help or {}, default or {})


def command(function: Callable[..., int]) -> Callable[..., int]:
    """Expand parameters annotated with a group into that group's options."""
    # Not get_type_hints: before 3.11 it wraps a type whose default is None in Optional and loses typer's annotations.
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        group, use = _group_of(parameter.annotation)
        if group is None:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        options = _options(group, use)
        groups[parameter.name] = group, [option.name for option in options]
        parameters += options

    @wraps(function)
    def call(**values: Any) -> int:
        built = {
            name: group(**{option: values.pop(option) for option in taken}) for name, (group, taken) in groups.items()
        }
        return function(**values, **built)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    del call.__wrapped__
    return call


def _group_of(hint: Any) -> tuple[Any, Use]:
    if get_origin(hint) is Annotated:
        kind, mark = get_args(hint)[:2]
        return (kind, mark) if isinstance(mark, Use) else (None, only())
    return hint if hasattr(hint, "_fields") else None, only()


def _options(group: Any, use: Use) -> list[inspect.Parameter]:
    found = []
    for name, default in group._field_defaults.items():
        if not use.takes(name):
            continue
        kind, declared = get_args(group.__annotations__[name])[:2]
        option = copy(declared)
        option.help = use.help.get(name, option.help)
        option.rich_help_panel = group.heading
        annotation = Annotated[kind, option]  # type: ignore[valid-type]
        default = use.default.get(name, default)
        found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    return found


class GroupedCommand(TyperCommand):
    """A command whose help opens with examples and shows options under the headings of their groups.

    typer can do this with rich, whose import would take longer than most commands.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        about, _, examples = inspect.cleandoc(self.help or "").partition("\b\n")
        formatter.write_text(about.strip())
        with formatter.section("Examples"):
            for line in examples.splitlines():
                formatter.write(f"  {line.strip()}\n")
        formatter.write_paragraph()
        self.format_usage(ctx, formatter)
        self.format_options(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for heading, records in self.headed(ctx).items():
            with formatter.section(heading):
                formatter.write_dl(records, col_max=28)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            rest = super().parse_args(ctx, args)
        except Exception as error:
            # An option without its value: the error does not know its command, whose --help the hint names.
            if getattr(error, "ctx", ctx) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise
        self.refuse_empty(ctx)
        return rest

    def refuse_empty(self, ctx: Any) -> None:
        """Refuse empty values, which come from shell variables that are not set.

        Without this, `--baseline "$OLD"` would be no gate at all.
        """
        for parameter in self.params:
            value = ctx.params.get(parameter.name)
            if parameter.name in MAY_BE_EMPTY or "" not in (value if isinstance(value, (list, tuple)) else [value]):
                continue
            if parameter.param_type_name == "argument":
                raise UsageError("an argument is empty", "leave it out, or set the shell variable that it comes from")
            name = min(parameter.opts, key=len)
            raise UsageError(f"{name} has an empty value", f"give it a value, or leave {name} out")

    def headed(self, ctx: Any) -> dict[str, list[tuple[str, str]]]:
        """Arguments and options by heading, in the order of the command's signature."""
        found: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                heading = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or OTHER
                found.setdefault(heading, []).append(record)
        found[OTHER] = found.pop(OTHER, [])
        return found


def unknown_command(given: str, known: Iterable[str], for_files: str) -> UsageError:
    """The error for a command that does not exist: it suggests a similar command, or the commands for a file."""
    from os.path import exists

    from bpmcli.core.data.names import nearest

    near = nearest(given, known)
    suggestion = f"did you mean {near}?" if near else "choose from " + ", ".join(known)
    if exists(given):
        suggestion = f"{for_files} {given}"
    return UsageError(f"no such command '{given}'", suggestion)


def similar_options(given: str, known: Iterable[str]) -> list[str]:
    """Options that were probably meant: those that begin with the given text, otherwise the most similar."""
    from difflib import SequenceMatcher

    name = given.lstrip("-")
    beginnings = sorted(option for option in known if name and option.startswith(given))
    if beginnings:
        return beginnings
    alike = {option: SequenceMatcher(None, name, option.lstrip("-")).ratio() for option in known}
    least = max([0.6, *(likeness - 0.1 for likeness in alike.values())])
    return [option for option, likeness in alike.items() if likeness > least]


def command_app(function: Callable[..., int]) -> typer.Typer:
    """An app of one command, as the root command loads it."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(cls=GroupedCommand)(command(function))
    return app
