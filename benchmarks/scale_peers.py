"""Functions of other packages for each metric, fit and reduction, to be timed beside bpmcli's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from bpmcli.core.calibrators import fit_calibrator
from bpmcli.core.data.log_odds import log_odds_of_confidences, reduce_logits
from bpmcli.core.data.rows import Rows, SummarisedRows
from bpmcli.core.data.sample import Sample, sample_from_confidences
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.core.summary.summary import Accumulator
from bpmcli.io.readers import EXACT_ROWS

Timed = Callable[[], Any]
Table = dict[str, tuple[Timed, dict[str, Timed]]]

SEVEN = ("ece", "ece-debiased", "ece-sweep", "ks", "smece", "ls-ece", "tce-bpm")

PYTHON_LOOPS = 100_000
"""Packages that walk the rows in Python are left out beyond this."""

AUTHORS_ROWS = 10_000
"""The published code takes a minute for these."""


def installed(*names: str) -> dict[str, Any]:
    """The modules that can be imported."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.import_module(name)
        except ImportError as error:
            print(f"{name} is not installed: left out ({error})")
    return found


def our_sample(s: np.ndarray, hits: np.ndarray) -> Sample:
    """A sample made as the commands make it: of every row up to five million, of a summary beyond."""
    if s.size <= EXACT_ROWS:
        return sample_from_confidences(s, hits)
    total = Accumulator()
    total.add_confidences(s, hits)
    return total.summary().to_sample()


def metric_peers(s: np.ndarray, hits: np.ndarray) -> Table:
    """From unsorted arrays to the value, sorting included."""
    labels = hits.astype(np.int64)
    modules = installed("sklearn.calibration", "netcal.metrics", "torchmetrics", "relplot", "calibration")
    others: dict[str, dict[str, Timed]] = {name: {} for name in [*SEVEN, "ece --binning width"]}
    if sk := modules.get("sklearn.calibration"):
        others["ece"]["scikit-learn"] = lambda: sk.calibration_curve(labels, s, n_bins=15, strategy="quantile")
        others["ece --binning width"]["scikit-learn"] = lambda: sk.calibration_curve(labels, s, n_bins=15)
    if netcal := modules.get("netcal.metrics"):
        others["ece --binning width"]["netcal"] = lambda: netcal.ECE(15).measure(s, labels)
    if "torchmetrics" in modules:
        torch, ce = torch_ce()
        ts, th = torch.from_numpy(s), torch.from_numpy(labels)
        others["ece --binning width"]["torchmetrics"] = lambda: ce(ts, th, n_bins=15, norm="l1", validate_args=False)
    if relplot := modules.get("relplot"):
        others["smece"]["relplot"] = lambda: relplot.smECE(s, labels.astype(np.float64))
    if (cal := modules.get("calibration")) and s.size <= PYTHON_LOOPS:
        others["ece"]["uncertainty-calibration"] = lambda: cal.lower_bound_scaling_ce(s, labels, p=1, debias=False)
        others["ece-debiased"]["uncertainty-calibration"] = lambda: cal.lower_bound_scaling_ce(s, labels, p=1)

    def ours(name: str) -> Timed:
        plain, _, width = name.partition(" --binning ")
        options = MetricOptions(binning=width or "mass")
        return lambda: measure(our_sample(s, hits), [plain], options)

    table: Table = {name: (ours(name), found) for name, found in others.items()}
    table["all seven"] = (lambda: measure(our_sample(s, hits), SEVEN), {})
    return table


def torch_ce() -> tuple[Any, Any]:
    import torch
    from torchmetrics.functional.classification import binary_calibration_error

    return torch, binary_calibration_error


def fit_peers(s: np.ndarray, hits: np.ndarray, authors: str | None = None) -> Table:
    """Curves over the confidence alone. `authors`: a checkout of the published code (NeuroDong/TCEbpm)."""
    labels = hits.astype(np.int64)
    modules = installed("sklearn.isotonic", "sklearn.linear_model", "betacal", "netcal.scaling", "netcal.binning")
    x = log_odds_of_confidences(s)
    others: dict[str, dict[str, Timed]] = {k: {} for k in ("bpm", "beta", "isotonic", "platt", "histogram")}
    if sk := modules.get("sklearn.isotonic"):
        others["isotonic"]["scikit-learn"] = lambda: sk.IsotonicRegression(out_of_bounds="clip").fit(s, labels)
    if linear := modules.get("sklearn.linear_model"):
        others["platt"]["scikit-learn"] = lambda: linear.LogisticRegression(C=1e12).fit(x[:, None], labels)
    if betacal := modules.get("betacal"):
        others["beta"]["betacal"] = lambda: betacal.BetaCalibration("abm").fit(s[:, None], labels)
    if (scaling := modules.get("netcal.scaling")) and s.size <= 10**6:
        others["platt"]["netcal"] = lambda: scaling.LogisticCalibration().fit(s, labels)
        others["beta"]["netcal"] = lambda: scaling.BetaCalibration().fit(s, labels)
    if binning := modules.get("netcal.binning"):
        others["histogram"]["netcal"] = lambda: binning.HistogramBinning(15).fit(s, labels)
        others["isotonic"]["netcal"] = lambda: binning.IsotonicRegression().fit(s, labels)

    if authors and s.size <= AUTHORS_ROWS:
        sys.path.insert(0, authors)
        from metrics.TCE_BPM import TCE_BPM  # type: ignore[import-not-found]

        order = np.argsort(s)
        others["bpm"]["published code"] = lambda: TCE_BPM(s[order], labels[order])

    def rows() -> Rows:
        if s.size > EXACT_ROWS:
            return SummarisedRows(our_sample(s, hits), "top-label")
        return Rows(log_odds_of_confidences(s), hits)

    return {name: (lambda name=name: fit_calibrator(name, rows()), found) for name, found in others.items()}


def reduce_peers(z: np.ndarray) -> dict[str, Timed]:
    """Log-odds of the best class. numpy and torch in float32 and in chunks; ours in float64."""
    functions: dict[str, Timed] = {"bpmcli": lambda: reduce_logits(z), "numpy f32, chunked": lambda: _numpy(z)}
    try:
        import torch
    except ImportError:
        print("torch is not installed: left out")
        return functions
    torch.set_num_threads(1)

    def with_torch() -> Any:
        out, step = torch.empty(len(z)), max(1, (1 << 18) // z.shape[1])
        for start in range(0, len(z), step):
            chunk = torch.from_numpy(z[start : start + step])
            top, index = chunk.max(1)
            others = chunk.scatter(1, index[:, None], -torch.inf)
            out[start : start + step] = top - torch.logsumexp(others, 1)
        return out

    return functions | {"torch f32, chunked": with_torch}


def _numpy(z: np.ndarray) -> np.ndarray:
    n, k = z.shape
    step = max(1, (1 << 18) // k)
    out, buffer = np.empty(n, dtype=np.float32), np.empty((step, k), dtype=np.float32)
    for start in range(0, n, step):
        chunk = z[start : start + step]
        e, index, best = buffer[: len(chunk)], np.arange(len(chunk)), chunk.argmax(axis=1)
        np.subtract(chunk, chunk[index, best][:, None], out=e)
        np.exp(e, out=e)
        e[index, best] = 0
        out[start : start + step] = -np.log(e.sum(axis=1))
    return out
