"""What the comparisons on known truth have in common: truths, data sets drawn from them, and tidy tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from bpmcli.cli import console
from bpmcli.cli.options.measuring import Details
from bpmcli.cli.options.showing import Output
from bpmcli.cli.options.truths import Truths
from bpmcli.errors import BpmError, UsageError


def source_of_truths(truths: Truths, read: Any, seed: int) -> Any:
    """The truths to draw from."""
    from bpmcli.core.compare.metrics_on_truth import Simulations
    from bpmcli.io.truths import parse_truths

    found = parse_truths(truths.truth or [], truths.density_from, read)
    return Simulations({truth.name: truth for truth in found}, seed)


def fit_options(details: Details) -> Any:
    """Options of the calibrators; --n-bins sets the bins of histogram binning."""
    from bpmcli.core.calibrators import FitOptions

    return FitOptions(details.resolve(), n_bins=details.n_bins)


def run_draws(task: Any, todo: Sequence[Any], jobs: int, resume: str | None, setting: dict[str, Any]) -> list[Any]:
    """Every draw with its values, in order; draws found in the resume file are not repeated."""
    from bpmcli.engines.local import work
    from bpmcli.io.draw_cache import DrawCache

    cache = DrawCache(resume, setting) if resume else None
    known: dict[str, Any] = cache.values if cache else {}
    identity: Callable[[Any], str] = task.source.identity
    missing = [draw for draw in todo if identity(draw) not in known]
    if len(missing) < len(todo):
        console.note(f"{resume}: {len(todo) - len(missing)} of {len(todo)} data sets are done already")
    try:
        results = console.progress(work(task, missing, jobs), len(missing), "simulating")
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
    from bpmcli.core.curves.tce import BetaDensity

    out = []
    for truth in source.truths.values():
        beta = [truth.density.a1, truth.density.a2] if isinstance(truth.density, BetaDensity) else None
        out.append({"truth": truth.name, "curve": str(truth.curve), "beta": beta, "tce": truth.tce(p)})
    return out


def records(scores: Sequence[Any]) -> list[dict[str, Any]]:
    """Result records as plain dictionaries."""
    return [asdict(s) for s in scores]


def check_targets(output: Output, files: Sequence[str | None], label: str | None = None) -> None:
    """Raise UsageError, before the work begins, for a format that cannot be written or a table in place of a file that is
    read. Names in `files` that are no files are skipped."""
    from bpmcli.io.formats import suffix_of, writers
    from bpmcli.io.outputs import spare_inputs
    from bpmcli.io.paths import Input

    if output.output and suffix_of(output.output) not in (".json", *writers()):
        raise UsageError(
            f"{output.output}: cannot write '{suffix_of(output.output)}' files",
            "known formats: .json, " + ", ".join(writers()),
        )
    if output.plot:
        from bpmcli.plots import check_plot

        check_plot(output.plot)
    spare_inputs([Input(file, file) for file in files if file], output.output, also=label)


def truth_files(truths: Truths) -> list[str | None]:
    """The files that truths and finished data sets are read from, if they are files."""
    return [truths.density_from, truths.resume, *",".join(truths.truth or []).split(",")]


def write_tidy(path: str | None, rows: Sequence[dict[str, Any]]) -> None:
    """A tidy table in the format of the suffix: json, csv, parquet, …; nothing without a path."""
    from bpmcli.io.documents import dumps
    from bpmcli.io.formats import suffix_of
    from bpmcli.io.writers import open_writer, write_text

    if not path:
        return
    if suffix_of(path) == ".json":
        write_text(path, dumps(list(rows)))
        return
    import pyarrow as pa

    with open_writer(path) as writer:
        writer.write({k: pa.array([r[k] for r in rows]) for k in rows[0]})
