"""What the benchmarks on known truth have in common: their options, their draws, their tidy tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, NamedTuple

import typer

from bpmcli.cli.options import InputArgs
from bpmcli.errors import BpmError, UsageError


class TruthArgs(NamedTuple):
    """Which truths, how many data sets, and where the results go."""

    truth: Annotated[
        list[str] | None,
        typer.Option(
            "--truth",
            metavar="D1,…|FAMILY:P,…@A1,A2|PARAMS.json",
            help="Known distributions: the paper's, a curve with its Beta, or a fitted curve; repeatable.",
        ),
    ] = None
    density_from: Annotated[
        str | None,
        typer.Option("--density-from", metavar="FILE", help="Take the confidences of this file as their distribution."),
    ] = None
    rows: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--rows",
            metavar="N|N,N|LO:HI:STEP|LO:HI:xF",
            help="Rows of each data set [metrics 2000, curves 10000, samples 125:32000:x2].",
        ),
    ] = None
    runs: Annotated[int, typer.Option("--runs", help="Data sets per truth and size.")] = 100
    jobs: Annotated[int, typer.Option("-j", "--jobs", help="Processes; 0 = one per core.")] = 1
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="FILE", help="Keep finished data sets here, and go on from them.")
    ] = None
    out: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Also as a tidy csv, parquet or json file.")
    ] = None
    plot: Annotated[str | None, typer.Option("--plot", metavar="FILE", help="A picture: png, svg or pdf.")] = None

    def source(self, read: InputArgs, seed: int) -> Any:
        """The truths; bad targets are refused before the work begins, not after it."""
        from bpmcli.core.compare.metrics_on_truth import Simulations
        from bpmcli.io.truths import SYNTAX, parse_truths

        if not self.truth:
            raise UsageError("--truth is missing", f"--truth {SYNTAX}")
        if self.runs < 1:
            raise UsageError(f"--runs must be positive, not {self.runs}")
        if seed < 0:
            raise UsageError(f"--seed must not be negative, not {seed}")
        if self.jobs < 0:
            raise UsageError(f"-j must not be negative, not {self.jobs}")
        check_targets(self.out, self.plot)
        truths = parse_truths(self.truth, self.density_from, read.resolve())
        return Simulations({truth.name: truth for truth in truths}, seed)

    def work(self, task: Any, todo: Sequence[Any], what: str, setting: dict[str, Any]) -> list[tuple[Any, Any]]:
        """Every draw with its values, in order; those in the resume file are not drawn again."""
        from bpmcli.cli import console
        from bpmcli.engines.local import work
        from bpmcli.io.draw_cache import DrawCache

        cache = DrawCache(self.resume, setting) if self.resume else None
        known: dict[str, Any] = cache.values if cache else {}
        identity: Callable[[Any], str] = task.source.identity
        missing = [draw for draw in todo if identity(draw) not in known]
        if len(missing) < len(todo):
            console.note(f"{self.resume}: {len(todo) - len(missing)} of {len(todo)} data sets are there already")
        try:
            results = console.progress(work(task, missing, self.jobs), len(missing), what)
            for draw, result in zip(missing, results, strict=True):
                if isinstance(result, BpmError):
                    raise result
                known[identity(draw)] = result
                if cache:
                    cache.add(identity(draw), result)
        finally:
            if cache:
                cache.save()
        return [(draw, known[identity(draw)]) for draw in todo]


def facts(source: Any, p: float = 1.0) -> list[dict[str, Any]]:
    """Every truth with its exact error, as JSON holds it."""
    from bpmcli.core.curves.density import BetaDensity

    out = []
    for truth in source.truths.values():
        beta = [truth.density.a1, truth.density.a2] if isinstance(truth.density, BetaDensity) else None
        out.append({"truth": truth.name, "curve": str(truth.curve), "beta": beta, "tce": truth.tce(p)})
    return out


def records(scores: Sequence[Any]) -> list[dict[str, Any]]:
    """Result records as plain dictionaries."""
    return [asdict(s) for s in scores]


def parse_sizes(text: str) -> list[int]:
    """`2000`, `500,1000`, `500:5000:500` or `500:8000:x2` (both ends included)."""
    try:
        if ":" in text:
            low, high, *rest = text.split(":")
            sizes = _ladder(int(low), int(high), *rest)
        else:
            sizes = [int(v) for v in text.split(",")]
    except (ValueError, TypeError):
        sizes = []
    if not sizes or min(sizes) < 1:
        raise UsageError(f"-n {text}: expected sizes like 2000, 500,1000, 500:5000:500 or 500:8000:x2")
    return sorted(set(sizes))


def _ladder(low: int, high: int, step: str | None = None) -> list[int]:
    if step is None or not step.startswith("x"):
        width = low if step is None else int(step)
        return list(range(low, high + 1, width)) if width > 0 else []
    factor, sizes = float(step[1:]), []
    if not (factor > 1 and low > 0):
        return []
    size = float(low)
    while round(size) <= high:
        sizes.append(round(size))
        size *= factor
    return sizes


def check_targets(out: str | None, plot: str | None) -> None:
    """Formats that cannot be written are a usage error."""
    from bpmcli.io.formats import suffix_of, writers

    if out and suffix_of(out) not in (".json", *writers()):
        raise UsageError(
            f"{out}: cannot write '{suffix_of(out)}' files", "known formats: .json, " + ", ".join(writers())
        )
    if plot:
        from bpmcli.plots import check_plot

        check_plot(plot)


def write_tidy(path: str, rows: Sequence[dict[str, Any]]) -> None:
    """A tidy table by suffix: json, csv, parquet, …"""
    from bpmcli.io.formats import suffix_of
    from bpmcli.io.params import dumps
    from bpmcli.io.writers import open_writer, write_text

    if suffix_of(path) == ".json":
        write_text(path, dumps(list(rows)))
        return
    import pyarrow as pa

    with open_writer(path) as writer:
        writer.write({k: pa.array([r[k] for r in rows]) for k in rows[0]})
