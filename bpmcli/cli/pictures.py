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


def reliability(path: str, paths: Sequence[str], options: Any, n_bins: int = 15, pooled: bool = False) -> None:
    """A reliability diagram per input, or one of all of them together."""
    from bpmcli.plots.reliability import draw_reliability

    groups = [list(paths)] if pooled else [[name] for name in paths]
    draw_reliability(path, [_sample(group, options) for group in groups], n_bins)


def fitted(path: str, documents: Sequence[Mapping[str, Any]], options: Any) -> None:
    """The curve of every parameter document, over histogram binning of the rows it was fitted to."""
    from bpmcli.core.calibrators import METHODS
    from bpmcli.plots.curves import FittedCurve, draw_fits

    fits = []
    for document in documents:
        calibrator = METHODS[document["method"]].calibrator.from_parameters(document["parameters"])
        name, sample = _sample([entry["name"] for entry in document["inputs"]], options)
        fits.append(FittedCurve(name, document["method"], sample, calibrator, document.get("band")))
    draw_fits(path, fits)


def _sample(paths: Sequence[str], options: Any) -> tuple[str, Any]:
    from bpmcli.io.readers import read_rows
    from bpmcli.tasks.read import pooled

    rows, _ = pooled([read_rows(name, options) for name in paths], paths)
    return paths[0] if len(paths) == 1 else f"pooled ({len(paths)} inputs)", rows.sample
