"""bpmcli compare: metrics or calibrators, on files or on known truth. One file per subcommand."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from bpmcli.cli.options.command import GroupedCommand, unknown_command

KINDS = {
    "metrics": "Files side by side, or metrics against known truth.",
    "calibrators": "Calibrators, judged on rows they were not fitted to.",
    "curves": "Fitted curves against the true curve: EAD, paired test.",
    "samples": "Rows each method needs for a given error.",
}
"""What can be compared: the function `compare_NAME` in `cli/compare/NAME.py`, and its line in --help."""

HELP = """Compare metrics or calibrators, on files or on known truth.

\b
  bpmcli compare before.npz after.npz
  bpmcli compare calibrators --calibration val.npz --evaluation test.npz
  bpmcli compare metrics --truth D1,D3 -n 500:5000:500 --runs 100 -j 0
"""


class _Kinds(TyperGroup):
    """`bpmcli compare a.npz b.npz` means `bpmcli compare metrics a.npz b.npz`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not args[0].startswith("-"):
            is_file = "." in args[0] or any(letter in args[0] for letter in "*?/\\") or os.path.exists(args[0])
            if not is_file:
                raise unknown_command(args[0], self.commands, "bpmcli compare metrics")
            args = ["metrics", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_Kinds, rich_markup_mode=None, add_completion=False, no_args_is_help=True, help=HELP)


@app.callback()
def _group() -> None:
    """Replaced by HELP."""


_group.__doc__ = None

for _name, _help in KINDS.items():
    _module = import_module(f"bpmcli.cli.compare.{_name}")
    app.command(cls=GroupedCommand, name=_name, short_help=_help)(getattr(_module, f"compare_{_name}"))
