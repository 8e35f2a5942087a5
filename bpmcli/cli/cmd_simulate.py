"""bpmcli simulate: data whose true calibration error is known."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from bpmcli.cli.options import OutputArgs, Seed, command
from bpmcli.errors import UsageError

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@command
def simulate(
    truth: Annotated[str | None, typer.Argument(help="D1 … D5, the paper's distributions.", metavar="[D1|…|D5]")] = None,
    curve: Annotated[str | None, typer.Option("--curve", metavar="FAMILY:P,…", help="Another curve, e.g. logit-logit:-0.88,0.49.")] = None,
    beta: Annotated[str | None, typer.Option("--beta", metavar="A1,A2", help="Its Beta distribution of confidence.")] = None,
    n: Annotated[int, typer.Option("-n", "--rows", help="Rows to draw.")] = 10_000,
    out: Annotated[str | None, typer.Option("-o", "--output", metavar="FILE", help="Output; csv on standard output if not given.")] = None,
    p: Annotated[float, typer.Option("--p", help="Power of the true error.")] = 1.0,
    seed: Seed = 0,
    *,
    output: OutputArgs,
) -> int:  # fmt: skip
    """Draw confidences and hits from a known curve (Algorithm 3), with the exact TCE.

    \b
      bpmcli simulate D1 -n 10000 -o d1.parquet
      bpmcli simulate --curve beta:0.5,0.6,0.2 --beta 2,0.3 -n 500 > rows.csv
    """
    import numpy as np

    from bpmcli.cli import console
    from bpmcli.cli.render import Table, show
    from bpmcli.core.compare.truths import custom_truth, truth_by_name
    from bpmcli.core.compare.truths import simulate as draw
    from bpmcli.core.data.sample import sigmoid
    from bpmcli.io.documents import dumps
    from bpmcli.io.formats import suffix_of
    from bpmcli.io.writers import open_writer, write_text

    format_ = output.resolve()
    if format_ != "table" and out in (None, "-"):
        raise UsageError(f"--format {format_} describes the file that -o names", "give -o FILE, or leave --format out")
    if (truth is None) == (curve is None) or (curve is None) != (beta is None):
        raise UsageError("give D1 … D5, or both --curve and --beta", "bpmcli simulate D1 -n 10000 -o d1.parquet")
    if not (np.isfinite(p) and p >= 1):
        raise UsageError(f"--p must be a finite number of at least 1, not {p:g}")
    chosen = truth_by_name(truth) if truth else custom_truth(curve or "", beta or "")
    drawn = draw(chosen, n, np.random.default_rng(seed))
    facts: dict[str, Any] = {
        "truth": chosen.name,
        "curve": str(chosen.curve),
        "beta": [chosen.density.a1, chosen.density.a2],
        "n": n,
        "seed": seed,
        "p": int(p) if p.is_integer() else p,
        "tce": chosen.tce(p),
    }
    columns = {
        "confidence": sigmoid(drawn.log_odds),
        "hit": drawn.hits,
        "log_odds": drawn.log_odds,
        "true_g": drawn.true_g,
    }
    with open_writer(out or "-", None if out else ".csv", {"bpmcli": json.dumps(facts)}) as writer:
        writer.write(columns)
    if out and out != "-" and suffix_of(out) not in (".parquet", ".pq", ".arrow", ".feather", ".npz"):
        # Text formats have no room for metadata.
        write_text(out + ".meta.json", dumps({"schema": "bpmcli/simulation", "version": 1, **facts}))
    if out and out != "-":
        shown = [[k, f"Beta({v[0]:g}, {v[1]:g})" if isinstance(v, list) else v] for k, v in facts.items() if k != "tce"]
        rows: list[list[Any]] = [*shown, ["exact TCE", facts["tce"]]]
        show(
            format_,
            Table(["", "value"], rows, f"simulated -> {out}"),
            {"schema": "bpmcli/simulation", "version": 1, **facts},
        )
    else:
        console.note(f"{chosen.name}: exact TCE_{p:g} = {facts['tce']!r}")
    return 0
