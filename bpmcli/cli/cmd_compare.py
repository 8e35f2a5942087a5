"""bpmcli compare: metrics or calibrators, on files or on known truth. One file per subcommand."""

from __future__ import annotations

import typer

from bpmcli.cli.compare_calibrators import compare_calibrators
from bpmcli.cli.compare_curves import compare_curves
from bpmcli.cli.compare_metrics import compare_metrics
from bpmcli.cli.compare_samples import compare_samples

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    help="Compare metrics or calibrators, on files or on known truth.",
)


@app.callback()
def _group() -> None:
    """Compare metrics or calibrators, on files or on known truth."""


app.command("calibrators")(compare_calibrators)
app.command("metrics")(compare_metrics)
app.command("curves")(compare_curves)
app.command("samples")(compare_samples)
