"""bpmcli simulate: data whose true calibration error is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from bpmcli.cli import console
from bpmcli.cli.options.checks import digits
from bpmcli.cli.options.command import command_app, only
from bpmcli.cli.options.measuring import Details
from bpmcli.cli.options.showing import Other, Output
from bpmcli.cli.options.truths import MOST_ROWS, CustomTruth, Truths
from bpmcli.errors import UsageError

SUFFIXES_WITH_METADATA = (".parquet", ".pq", ".arrow", ".feather", ".npz")
SCHEMA = {"schema": "bpmcli/simulation", "version": 1}

Named = Annotated[str | None, typer.Argument(help="One of the paper's distributions, D1 … D5.", metavar="[D1|…|D5]")]
ROWS = only("rows", help={"rows": "Rows to draw."}, default={"rows": "10000"})
OUTPUT = only("output", "format", help={"output": "Output file; csv on standard output if not given."})


def simulate(
    truth: Named = None,
    *,
    size: Annotated[Truths, ROWS],
    custom: CustomTruth,
    output: Annotated[Output, OUTPUT],
    details: Annotated[Details, only("p", help={"p": "Exponent p of the true error."})],
    other: Other,
) -> int:
    """Draw data from a known calibration curve (Algorithm 3), and print its exact calibration error.

    \b
      bpmcli simulate D1 -n 10000 -o d1.parquet
      bpmcli simulate --curve beta:0.5,0.6,0.2 --beta 2,0.3 -n 500 > rows.csv
    """
    from bpmcli.core.compare.truths import custom_truth, truth_by_name

    format_, seed, p = output.resolve(), other.resolve(), details.resolve().p
    n = digits("-n", str(size.rows), MOST_ROWS)
    to_stdout = output.output in (None, "-")
    if format_ != "table" and to_stdout:
        raise UsageError(f"--format {format_} describes the file that -o names", "give -o FILE, or leave --format out")
    if (truth is None) == (custom.curve is None) or (custom.curve is None) != (custom.beta is None):
        raise UsageError("give D1 … D5, or both --curve and --beta", "bpmcli simulate D1 -n 10000 -o d1.parquet")
    chosen = truth_by_name(truth) if truth else custom_truth(custom.curve or "", custom.beta or "")
    facts = {
        "truth": chosen.name,
        "curve": str(chosen.curve),
        "beta": [chosen.density.a1, chosen.density.a2],
        "n": n,
        "seed": seed,
        "p": int(p) if p.is_integer() else p,
        "tce": chosen.tce(p),
    }
    _write(output.output, _draw(chosen, n, seed), facts)
    if to_stdout:
        console.note(f"{chosen.name}: exact TCE_{p:g} = {facts['tce']!r}")
    else:
        _show(format_, str(output.output), facts)
    return 0


app = command_app(simulate)


def _draw(truth: Any, n: int, seed: int) -> dict[str, Any]:
    import numpy as np

    from bpmcli.core.compare.truths import simulate as draw
    from bpmcli.core.data.sample import sigmoid

    drawn = draw(truth, n, np.random.default_rng(seed))
    return {
        "confidence": sigmoid(drawn.log_odds),
        "hit": drawn.hits,
        "log_odds": drawn.log_odds,
        "true_g": drawn.true_g,
    }


def _write(target: str | None, columns: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    from bpmcli.io.documents import dumps
    from bpmcli.io.formats import suffix_of
    from bpmcli.io.writers import open_writer, write_text

    with open_writer(target or "-", None if target else ".csv", {"bpmcli": json.dumps(facts)}) as writer:
        writer.write(columns)
    if target and target != "-" and suffix_of(target) not in SUFFIXES_WITH_METADATA:
        # Text formats have no room for metadata.
        write_text(target + ".meta.json", dumps({**SCHEMA, **facts}))


def _show(format_: str, target: str, facts: Mapping[str, Any]) -> None:
    from bpmcli.cli.render import Table, show

    values = {k: f"Beta({v[0]:g}, {v[1]:g})" if isinstance(v, list) else v for k, v in facts.items() if k != "tce"}
    values["exact TCE"] = facts["tce"]
    table = Table(["", "value"], [[k, v] for k, v in values.items()], f"simulated -> {target}")
    if format_ == "csv":
        table = Table(["output", *values], [[target, *values.values()]])
    show(format_, table, {**SCHEMA, **facts})
