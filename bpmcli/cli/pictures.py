"""Pictures of files: what `fit --plot` and `metrics --plot` draw."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bpmcli.cli.measurement_tables import title
from bpmcli.core.data.rows import EVENT
from bpmcli.errors import UsageError

if TYPE_CHECKING:
    from bpmcli.plots import PictureStyle
    from bpmcli.plots.reliability import Diagram
    from bpmcli.tasks.fit import FitFile
    from bpmcli.tasks.measure import Measurement

MOST = 12
"""The most panels that can still be read."""


def check_diagrams(path: str | None) -> None:
    """Check, before the work begins, that reliability diagrams can be drawn."""
    if path is not None:
        from bpmcli.plots import check_plot

        check_plot("picture.png" if _is_folder(path) else path)


def check_fits(path: str, items: Sequence[Any], pooled: bool, method: str) -> None:
    """Check, before the work begins, that the curves of `fit` can be drawn."""
    from bpmcli.core.calibrators import METHODS
    from bpmcli.plots import check_plot

    check_plot(path)
    if any(item.path == "-" for item in items):
        raise UsageError("--plot reads its input a second time, which is impossible for standard input", "name a file")
    most = MOST if method in METHODS and not METHODS[method].needs_distribution else MOST // 2
    if len(items) > most and not pooled:
        raise UsageError(f"--plot draws up to {most} inputs, found {len(items)}", "give fewer inputs, or --pool them")


def _is_folder(path: str) -> bool:
    return path.endswith(("/", os.sep)) or os.path.isdir(path)


def write_reliability(path: str, measured: Sequence[Measurement], overlay: bool, style: PictureStyle) -> list[str]:
    """Draw reliability diagrams in panels, in one panel, or in one file each. Returns the files written."""
    from bpmcli.plots.reliability import draw_overlay, draw_reliability

    diagrams = [_diagram(one) for one in measured]
    if _is_folder(path) and not overlay:
        os.makedirs(path, exist_ok=True)
        targets = _file_names(path, [d.name for d in diagrams])
        for target, diagram in zip(targets, diagrams, strict=True):
            draw_reliability(target, [diagram], style)
        return targets
    if len(diagrams) > MOST and not overlay:
        raise UsageError(
            f"one picture shows up to {MOST} diagrams, found {len(diagrams)}", "--plot DIR/ draws one file per input"
        )
    (draw_overlay if overlay else draw_reliability)(path, diagrams, style)
    return [path]


def _diagram(one: Measurement) -> Diagram:
    from bpmcli.plots.reliability import Diagram

    record, event = one.record, one.record["target"] == EVENT
    tce = record["metrics"].get("tce", {})
    figures = _figures(100 * record["mean_confidence"], 100 * record["accuracy"], tce, event)
    return Diagram(title(record), one.diagram, figures, event)


def _figures(says: float, right: float, tce: Mapping[str, float | None], event: bool) -> str:
    """What the model says and how often it is right, in percent, and its calibration error (`value`, `low`, `high`)."""
    words = "mean P(y = 1) {:.1f} %, event rate {:.1f} %" if event else "says {:.1f} %, is right {:.1f} %"
    figures = words.format(says, right)
    if tce.get("value") is not None:
        figures += f"\ntce {tce['value']:.4f}"
        figures += f" ({tce['low']:.4f} to {tce['high']:.4f})" if tce.get("low") is not None else ""
    return figures


def _file_names(folder: str, names: Sequence[str]) -> list[str]:
    """A file for each name; names that would collide are numbered."""
    stems = [re.sub(r"[^\w.-]+", "_", os.path.splitext(os.path.basename(name))[0]) or "input" for name in names]
    seen: dict[str, int] = {}
    out = []
    for stem in stems:
        seen[stem] = seen.get(stem, 0) + 1
        out.append(os.path.join(folder, stem + (f"-{seen[stem]}" if seen[stem] > 1 else "") + ".png"))
    return out


def fitted(path: str, documents: Sequence[Mapping[str, Any]], task: FitFile) -> None:
    """The curve of every parameter document, over histogram binning of the rows it was fitted to.

    A method that works on all classes has no such curve. Diagrams before and after calibration are drawn instead.
    """
    from bpmcli.core.calibrators import METHODS
    from bpmcli.plots.curves import FittedCurve, draw_fits

    if any(METHODS[document["method"]].needs_distribution for document in documents):
        _before_and_after(path, documents, task)
        return
    fits, options = [], task.options
    for document in documents:
        calibrator = METHODS[document["method"]].calibrator.from_parameters(document["parameters"])
        name, rows = _rows([entry["name"] for entry in document["inputs"]], options)
        event = document["target"] == EVENT
        figures = _before_after(document.get("validation"))
        fits.append(
            FittedCurve(name, document["method"], rows.sample, calibrator, document.get("band"), figures, event)
        )
    draw_fits(path, fits)


def _before_and_after(path: str, documents: Sequence[Mapping[str, Any]], task: FitFile) -> None:
    """Two reliability diagrams of each input, with common axes: as it was, and calibrated by fits to other rows."""
    from bpmcli.core.compare.before_after import held_out
    from bpmcli.core.metrics.reliability import reliability
    from bpmcli.plots import PictureStyle
    from bpmcli.plots.reliability import Diagram, draw_reliability

    diagrams = []
    for document in documents:
        event, said = document["target"] == EVENT, document["validation"]
        name, rows = _rows([entry["name"] for entry in document["inputs"]], task.options, distributions=True)
        after, how = held_out(document["method"], rows, task.fit, task.grouping, task.seed)
        before = reliability(rows.sample, parts=True)
        diagrams.append(Diagram(f"{name}: before", before, _words(said["before"], event), event))
        if after is not None:
            figures = f"{_words(said['after'], event)}\n({how})"
            found = reliability(after, axis=before.axis.kind, parts=True)
            diagrams.append(Diagram(f"{name}: {document['method']}", found, figures, event))
    draw_reliability(path, diagrams, PictureStyle(title="Before and after calibration"), columns=2)


def _words(verdict: Mapping[str, Any], event: bool) -> str:
    """The figures of a stored verdict, for a title."""
    tce = {"value": verdict["tce"], "low": verdict["low"], "high": verdict["high"]}
    return _figures(100 * verdict["says"], 100 * verdict["right"], tce, event)


def _before_after(validation: Mapping[str, Any] | None) -> str:
    """What the calibrator achieves, for a title."""
    if not validation or not validation.get("after"):
        return ""
    before, after = validation["before"], validation["after"]
    return f"tce {before['tce']:.4f}, after calibration {after['tce']:.4f}\n({validation['how']})"


def _rows(paths: Sequence[str], options: Any, distributions: bool = False) -> tuple[str, Any]:
    from bpmcli.io.readers import read_rows
    from bpmcli.tasks.read import pooled

    rows, _ = pooled([read_rows(name, options, distributions=distributions) for name in paths], paths)
    return paths[0] if len(paths) == 1 else f"pooled ({len(paths)} inputs)", rows
