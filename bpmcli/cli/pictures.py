"""Pictures of files: what `fit --plot` and `metrics --plot` draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpmcli.errors import UsageError

MOST = 12
"""Panels that still can be read."""


def check_picture(path: str | None, items: Sequence[Any], pooled: bool = False, method: str | None = None) -> None:
    """Refuse before the work what could not be drawn after it."""
    if path is None:
        return
    from bpmcli.core.calibrators import METHODS
    from bpmcli.plots import check_plot

    check_plot(path)
    if any(item.path == "-" for item in items):
        raise UsageError("--plot reads its input a second time, which standard input cannot give", "name a file")
    if len(items) > MOST and not pooled:
        raise UsageError(f"--plot draws up to {MOST} inputs, found {len(items)}", "draw fewer, or --pool them")
    if method and METHODS[method].needs_distribution:
        raise UsageError(
            f"--plot draws a curve over the confidence, and {method} works on all classes",
            "choose another --method",
        )


def reliability(
    path: str,
    paths: Sequence[str],
    options: Any,
    n_bins: int = 15,
    pooled: bool = False,
    axis: str | None = None,
    overlay: bool = False,
    style: Any = None,
) -> None:
    """A reliability diagram per input, one of all rows together, or all curves in one panel."""
    from bpmcli.core.data.rows import EVENT
    from bpmcli.core.metrics.reliability import reliability as compute
    from bpmcli.plots import PLAIN
    from bpmcli.plots.reliability import Diagram, draw_overlay, draw_reliability

    groups = [list(paths)] if pooled else [[name] for name in paths]
    diagrams = []
    for group in groups:
        name, rows = _rows(group, options)
        sample = rows.sample
        event = rows.target == EVENT
        figures = f"says {100 * sample.mean_confidence:.1f} %, is right {100 * sample.accuracy:.1f} %"
        if event:
            figures = f"mean P(y = 1) {100 * sample.mean_confidence:.1f} %, event rate {100 * sample.accuracy:.1f} %"
        diagrams.append(Diagram(name, compute(sample, n_bins, axis=axis), figures, event))
    draw = draw_overlay if overlay else draw_reliability
    draw(path, diagrams, style or PLAIN)


def fitted(path: str, documents: Sequence[Mapping[str, Any]], options: Any) -> None:
    """The curve of every parameter document, over histogram binning of the rows it was fitted to."""
    from bpmcli.core.calibrators import METHODS
    from bpmcli.plots.curves import FittedCurve, draw_fits

    fits = []
    for document in documents:
        calibrator = METHODS[document["method"]].calibrator.from_parameters(document["parameters"])
        name, rows = _rows([entry["name"] for entry in document["inputs"]], options)
        fits.append(FittedCurve(name, document["method"], rows.sample, calibrator, document.get("band")))
    draw_fits(path, fits)


def _rows(paths: Sequence[str], options: Any) -> tuple[str, Any]:
    from bpmcli.io.readers import read_rows
    from bpmcli.tasks.read import pooled

    rows, _ = pooled([read_rows(name, options) for name in paths], paths)
    return paths[0] if len(paths) == 1 else f"pooled ({len(paths)} inputs)", rows
