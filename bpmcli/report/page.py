"""The page: figures of each model, put into words and tables by a template that escapes every text."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.util import find_spec
from typing import Any

from bpmcli import __version__
from bpmcli.core.compare.score_table import BEST, CLOSE
from bpmcli.core.data.rows import EVENT
from bpmcli.core.metrics import METRICS
from bpmcli.core.metrics.verdict_words import about_event
from bpmcli.errors import UsageError
from bpmcli.escape import spelled_out
from bpmcli.report.svg import diagram
from bpmcli.tasks.report import IDENTITY, Examined, log_losses

WORST_BINS = 3
"""The number of bins that the page names as the place of the error."""


def check_report(path: str) -> None:
    """Raise UsageError early if the report could not be written at the end."""
    if not path.lower().endswith((".html", ".htm")):
        raise UsageError(f"{path}: a report is an HTML page", "name it report.html")
    if find_spec("jinja2") is None:
        raise UsageError("reports need jinja2, which is not installed", "pip install jinja2")


def render_report(models: Sequence[Examined], failures: Sequence[str], calibration: str | None) -> str:
    """The whole page as text. `failures` are messages that name their input. The same models give the same bytes."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bpmcli.report", ""),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (percent, figure, tone, meaning, unbroken)
    environment.filters |= {function.__name__: function for function in filters}
    ordered = sorted(models, key=_error)
    tied = ties_with_best([model.record["metrics"]["tce"] for model in ordered])
    folder = common_folder([str(model.record["input"]) for model in models])
    page = environment.get_template("page.html").render(
        models=[_view(model, place, folder, place - 1 in tied) for place, model in enumerate(ordered, start=1)],
        tied=tied,
        folder=folder,
        failures=failures,
        calibration=calibration,
        best=BEST,
        close=CLOSE,
        version=__version__,
    )
    return page + "\n"


def _printable(value: Any) -> Any:
    """What the template shows: text without control characters, and without bytes that are not UTF-8."""
    return spelled_out(value) if type(value) is str else value


def common_folder(names: Sequence[str]) -> str:
    """The folder that several inputs share, with a slash at its end; empty if there is none."""
    folders = [name.rpartition("/")[0] + "/" for name in names if "/" in name]
    if len(names) < 2 or len(folders) < len(names):
        return ""
    # Prefixes, not paths: some names are addresses.
    shared = os.path.commonprefix(folders)  # noqa: RUF071
    folder = shared[: shared.rfind("/") + 1]
    return folder if folder.strip("/") else ""


def _error(model: Examined) -> tuple[bool, float, str]:
    """Best first; models whose error could not be estimated last."""
    value = model.record["metrics"]["tce"]["value"]
    return value is None, value or 0.0, model.record["input"]


def ties_with_best(ranked: Sequence[Mapping[str, Any]]) -> set[int]:
    """Places, counted from 0, whose interval overlaps the interval of the best; empty if there is none."""
    best = ranked[0].get("high")
    if best is None:
        return set()
    tied = {i for i, tce in enumerate(ranked) if tce.get("low") is not None and tce["low"] <= best}
    return tied if len(tied) > 1 else set()


def _view(model: Examined, place: int, folder: str, tied: bool) -> dict[str, Any]:
    record = model.record
    event = record["target"] == EVENT
    name = str(record["input"]).removeprefix(folder)
    label = f"Reliability diagram of {name}: {_sentence(record)}"
    return {
        "id": f"model-{place}",
        "place": place,
        "tied": tied,
        "record": record,
        "name": name,
        "event": event,
        "verdict": record.get("verdict") or {},
        "tone": tone(record.get("verdict") or {}),
        "sentence": _sentence(record),
        "remarks": record.get("disagreements", ()),
        "edge": ", ".join(model.reliability.at_the_edge()),
        "diagram": _markup(diagram(model.reliability, escape(spelled_out(label), quote=True), event)),
        "worst": worst_bins(model.reliability.bins) if _has_error(record) else [],
        "groups": model.groups,
        "repairs": repair_table(model.repairs, model.errors),
        "notices": [{"text": str(n), "hint": n.hint} for n in dict.fromkeys(model.notices)],
    }


def _has_error(record: Mapping[str, Any]) -> bool:
    """Whether there is an error to be located: without one, the bins show only noise."""
    return (record.get("verdict") or {}).get("where") is not None


def _sentence(record: Mapping[str, Any]) -> str:
    verdict = record.get("verdict") or {}
    return str(verdict.get("sentence") or "")


def tone(verdict: Mapping[str, Any]) -> str:
    """The colour of a verdict: the name of a style in the page."""
    name = str(verdict.get("name", ""))
    found = [style for style in ("over-confident", "under-confident", "calibrated") if name.startswith(style)]
    return found[0] if found else "unclear" if name else ""


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


def unbroken(text: str) -> Any:
    """A sentence, escaped, in which no line breaks between a figure and its % or within an option."""
    from markupsafe import Markup

    kept = re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", escape(spelled_out(text)))
    return Markup(re.sub(r"--[a-z][a-z-]*", r'<span class="whole">\g<0></span>', kept))


def worst_bins(bins: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """The bins that contribute most to the binned error, each with its share of it."""
    weights = [b["rows"] * abs(b["gap"]) for b in bins]
    total = sum(weights)
    if not total:
        return []
    order = sorted(range(len(bins)), key=lambda i: -weights[i])[:WORST_BINS]
    return [{**bins[i], "share": weights[i] / total} for i in order]


def repair_table(scores: Sequence[Any], errors: tuple[float, float] | None) -> dict[str, Any] | None:
    """One row per method, the lowest log loss first. It is the log loss over all classes if their scores are known."""
    if not scores:
        return None
    names = list(dict.fromkeys(s.score for s in scores if s.value is not None))
    at = {(s.method, s.score): s for s in scores}
    losses = log_losses(scores)
    rows = [(m, [at[m, n] for n in names]) for m in losses]
    return {"scores": names, "rows": rows, "sentence": gain(losses, errors)}


def gain(losses: Mapping[str, float | None], errors: tuple[float, float] | None = None) -> str:
    """A sentence about the log loss and the calibration error before and after the best calibrator."""
    known = {method: value for method, value in losses.items() if value is not None}
    before = known.get(IDENTITY)
    best = min(known, key=lambda method: known[method]) if known else IDENTITY
    if before is None:
        return ""
    if best == IDENTITY or figure(known[best]) == figure(before):
        return "No calibrator would lower the log loss of these rows."
    change = f"from {figure(before)} to {figure(known[best])}"
    if errors is None:
        return f"The best of them, {best}, would lower the log loss of these rows {change}."
    raw, calibrated = (f"{100 * error:.1f}" for error in errors)
    if errors[1] < errors[0] and raw != calibrated:
        error = f"the calibration error (tce) of these rows from {raw} to {calibrated} points"
        return f"The best of them, {best}, would lower {error} and their log loss {change}."
    error = f"their calibration error (tce {raw} points before, {calibrated} after)"
    return f"The best of them, {best}, would lower the log loss of these rows {change}, but not {error}."


def meaning(name: str, event: bool) -> str:
    """What a metric measures, in terms of probabilities and the event rate for an event."""
    summary = METRICS[name].summary
    return about_event(summary) if event else summary


def percent(value: float | None, digits: int = 1) -> str:
    """A share as text; more digits near 100 %, so that 99.97 % does not read 100.0 %."""
    if value is None:
        return "–"
    while digits < 6 and value < 1 and round(100 * value, digits) >= 100:
        digits += 1
    return f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"


def figure(value: float | None) -> str:
    """A metric as text."""
    return "–" if value is None else f"{value:.4f}"
