"""What `metrics` shows: its tables, the JSON document, notices and diagrams."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bpmcli import __version__
from bpmcli.cli import console

Record = Mapping[str, Any]

SCHEMA, VERSION = "bpmcli/metrics", 1


def show_results(
    format_: str, measured: Sequence[Any], sort: str | None, options: Any, wanted: Any,
    failures: Sequence[Any], gates: Sequence[Any],
) -> list[Record]:  # fmt: skip
    """Print all results, ranked if that was asked for, and return their records; jsonl has printed them already."""
    records = [one.record for one in measured]
    if records and format_ != "jsonl":
        records = ranked_records(records, sort, format_) if sort else records
        show_records(format_, records, document_of(options, records, failures, gates), wanted, sort)
    elif format_ == "json":  # every input failed; the document lists the failures
        from bpmcli.cli.render import Table, show

        show(format_, Table([], []), document_of(options, records, failures, gates))
    return records


def show_records(
    format_: str, records: Sequence[Record], document: Mapping[str, Any], wanted: Any, sort: str | None = None
) -> None:
    """Print the tables that were asked for, or the document as JSON."""
    from bpmcli.cli.measurement_tables import CLASSES_SHOWN, bins, classes, measurements, shorten_inputs
    from bpmcli.cli.render import show

    by_eye = format_ in ("table", "markdown")
    tables = [bins(records, by_eye)] if wanted.bins_table else []
    if wanted.classwise:
        tables += [classes(records, most=CLASSES_SHOWN if by_eye else None)]
    alone = wanted.bins_table and not (by_eye and (wanted.noise_runs or wanted.interval or wanted.classwise))
    if (by_eye and not alone) or not tables:
        tables.insert(0, measurements(records, format_ == "csv", console.quiet, sort))
    for number, table in enumerate(tables[:1] if format_ == "json" else tables):  # the document holds everything
        if number:
            print()
        show(format_, shorten_inputs(table) if by_eye and len(records) > 1 else table, document)
    if wanted.noise_runs:
        _explain_least_p_value(records, wanted.noise_runs)


def _explain_least_p_value(records: Sequence[Record], runs: int) -> None:
    """A note if a P-value is the smallest that the number of runs allows."""
    least = 1 / (runs + 1)
    found = [floor for record in records for floor in record["noise_floor"].values() if floor]
    if any(floor["p_value"] is not None and floor["p_value"] <= least * (1 + 1e-9) for floor in found):
        console.note(
            f"note: {least:.5f} is the smallest P-value that {runs} runs can give; the true one may be smaller"
        )


def ranked_records(records: Sequence[Record], metric: str, format_: str) -> list[Record]:
    """The records in the order of a metric, the best first."""
    from bpmcli.cli.measurement_tables import rank

    ranked: list[Record] = list(rank(records, metric))
    if format_ in ("table", "markdown") and len(ranked) > 1:
        known = any(record["tied"] is not None for record in ranked)
        ties = (
            "tied: its confidence interval overlaps the interval of the best"
            if known
            else "add --interval 0.95 to see ties"
        )
        console.note(f"ranked by {metric}, the best first; {ties}")
    return ranked


def show_notices_of_input(done: Sequence[Any], where: str) -> None:
    """Print the notices of an input and why metrics are missing. A notice that all its groups share is printed once."""
    from bpmcli.cli.measurement_tables import title

    shared = [n for n in done[0].notices if all(n in one.notices for one in done)]
    if shared:
        console.show_notices(shared, where)
    for one in done:
        if own := [n for n in one.notices if n not in shared]:
            console.show_notices(own, title(one.record))
        missing: dict[str, list[str]] = {}
        for name, found in one.record["metrics"].items():
            if found["value"] is None:
                missing.setdefault(found["why_missing"], []).append(name)
        for why, names in missing.items():
            console.note(f"note: {title(one.record)}: no {', '.join(names)}: {why}")


def document_of(
    options: Any, records: Sequence[Record] = (), failures: Sequence[Any] = (), results: Sequence[Any] = ()
) -> dict[str, Any]:
    """The results as JSON holds them."""
    from bpmcli.cli.measurement_tables import outward

    return {
        "schema": SCHEMA,
        "version": VERSION,
        "tool": f"bpmcli {__version__}",
        "options": as_json(options),
        "results": [outward(record) for record in records],
        "failures": [{"input": name, "error": error.message} for name, error in failures],
        "gates": [result._asdict() for result in results],
    }


def as_json(options: Any) -> dict[str, Any]:
    """Options in the form that JSON has: tuples are lists."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in options._asdict().items()}


def show_diagrams(measured: Sequence[Any]) -> None:
    """Print a reliability diagram of each measurement."""
    from bpmcli.cli import diagram
    from bpmcli.cli.measurement_tables import title
    from bpmcli.cli.render import short, writing
    from bpmcli.core.data.rows import EVENT

    with writing():
        for one in measured:
            print(f"\n{short(title(one.record))}" if len(measured) > 1 else "")
            diagram.show_diagram(one.diagram, one.record["target"] == EVENT)


def suggest_repair(measured: Sequence[Any], read: Any, correct: Any) -> None:
    """On a terminal, print the commands that repair the error of a single input, which was read with these options."""
    names = [one.record["verdict"]["name"] for one in measured if "verdict" in one.record]
    if len(measured) != 1 or not names or names[0] in ("calibrated", "too-few-rows") or not sys.stderr.isatty():
        return
    if correct.top_k > 1:  # no calibrator is fitted to the K most probable classes
        return
    given = _options_given(read, correct)
    fit = " ".join(["bpmcli fit VALIDATION", *given.values(), "--method auto -o params.json"])
    forgotten = [given[name] for name in ("multi_label", "skip_missing") if name in given]  # params.json has the others
    apply = " ".join(["bpmcli apply params.json INPUT", *forgotten, "-o OUTPUT"])
    console.note(f"To repair it, fit a calibrator to other rows with labels: {fit}; then {apply}")


def _options_given(*groups: Any) -> dict[str, str]:
    """The options of these groups that were given, as a command line has them, by parameter name."""
    import shlex

    from bpmcli.io.label_files import file_and_column

    found = {}
    for group in groups:
        for name, value in group._asdict().items():
            if value in (None, group._field_defaults[name]):
                continue
            if name == "label" and file_and_column(value)[0]:  # other rows have another file of labels
                value = "VALIDATION_LABELS"
            option = f"--{name.replace('_', '-')}"
            found[name] = option if value is True else f"{option} {shlex.quote(str(value))}"
    return found


def draw_pictures(path: str, measured: Sequence[Any], overlay: bool, style: Any) -> None:
    """Write reliability diagrams to a file, or to files in a folder, and say so."""
    from bpmcli.cli.pictures import write_reliability

    written = write_reliability(path, measured, overlay, style)
    more = f" and {len(written) - 1} more" if len(written) > 1 else ""
    console.note(f"wrote {written[0]}{more}")
