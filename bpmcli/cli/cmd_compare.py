"""bpmcli compare: metrics or calibrators, on files or on known truth. One file per subcommand."""

from __future__ import annotations

import typer

from bpmcli.cli.compare_metrics import compare_metrics

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    help="Compare metrics or calibrators, on files or on known truth.",
)


@app.callback()
def _group() -> None:
    """Compare metrics or calibrators, on files or on known truth."""


app.command("metrics")(compare_metrics)
