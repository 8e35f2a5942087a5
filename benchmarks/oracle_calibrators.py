"""Calibrators fitted by independent packages, as oracle values, and how far ours are from them.

    python benchmarks/oracle_calibrators.py DATA_FOLDER [-o FILE]
    python benchmarks/oracle_calibrators.py sample_data -o tests/oracles/calibrators.json

Needs scikit-learn, betacal and uncertainty-calibration. Every .npz of the folder with `logits` or `probs`
and `labels`, or `confidence`, `pred` and `labels`, is fitted whole:

    isotonic     scikit-learn IsotonicRegression; rates of 0 and 1 moved inside by 1/(m+2), our rule
    platt        scikit-learn LogisticRegression on Platt's targets, to machine precision
                 (_SigmoidCalibration minimises the same sum, and stops at 1e-6)
    beta         betacal "abm", its LogisticRegression run to machine precision instead of 1e-4
    histogram    uncertainty-calibration HistogramCalibrator, 15 bins; rates of 0 and 1 as above
    temperature  scikit-learn _TemperatureScaling, and a bisection in 80-bit arithmetic
    spline       the authors' least squares at the N ranks; ours is its continuous limit, 1/N away

One-dimensional methods see confidences of 14 decimals within [1e-14, 1 - 1e-14]: betacal clips at 2e-16, and
scikit-learn merges what differs by less than 1e-15.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

BINS, KNOTS = 15, 6
EPS = 1e-14
Values = dict[str, object]


def load(path: Path) -> dict[str, np.ndarray]:
    """Confidences and hits; logits and labels where the whole distribution is there."""
    with np.load(path) as file:
        labels = file["labels"].ravel().astype(np.int64)
        if "confidence" in file:
            s = file["confidence"].astype(float)
            return {"s": np.clip(s.round(14), EPS, 1 - EPS), "hits": file["pred"].ravel() == labels}
        if "logits" in file:
            logits = file["logits"].astype(float)
        else:
            with np.errstate(divide="ignore"):
                logits = np.log(file["probs"].astype(float))
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    s = np.clip(probs.max(axis=1).round(14), EPS, 1 - EPS)
    return {"s": s, "hits": probs.argmax(axis=1) == labels, "logits": logits, "labels": labels}


def points_of(s: np.ndarray) -> tuple[np.ndarray, int]:
    """Confidences that occur, at even ranks, then a grid; and how many the former are."""
    observed = np.unique(np.quantile(s, np.linspace(0, 1, 31), method="nearest"))
    return np.concatenate([observed, np.linspace(0, 1, 12)[1:-1]]), observed.size


def _moved(rate: float, m: int) -> float:
    return 1 / (m + 2) if rate == 0 else 1 - 1 / (m + 2) if rate == 1 else rate


def isotonic(s: np.ndarray, hits: np.ndarray, points: np.ndarray) -> Values:
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(out_of_bounds="clip").fit(s, hits.astype(float))
    fitted, y = model.predict(s), model.y_thresholds_.copy()
    between = y[(y > 0) & (y < 1)]
    y[y == 0] = min(_moved(0, int((fitted == 0).sum())), between.min(initial=1))
    y[y == 1] = max(_moved(1, int((fitted == 1).sum())), between.max(initial=0))
    return {"values": np.interp(points, model.X_thresholds_, y).tolist()}


def platt(s: np.ndarray, hits: np.ndarray, points: np.ndarray) -> Values:
    from sklearn.calibration import _SigmoidCalibration

    x = np.log(s) - np.log1p(-s)
    n_hits, n_misses = int(hits.sum()), int((~hits).sum())
    target = np.where(hits, (n_hits + 1) / (n_hits + 2), 1 / (n_misses + 2))
    model = _exact_regression().fit(
        np.concatenate([x, x])[:, None], np.repeat([1, 0], x.size), np.concatenate([target, 1 - target])
    )
    at = np.log(points) - np.log1p(-points)
    rough = _SigmoidCalibration().fit(x, hits.astype(float))
    return {
        "a": float(model.coef_[0, 0]),
        "b": float(model.intercept_[0]),
        "values": model.predict_proba(at[:, None])[:, 1].tolist(),
        "sigmoid_calibration": rough.predict(at).tolist(),
    }


def _exact_regression(**options: object) -> object:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(**({"C": 1e15} | options | {"solver": "newton-cholesky", "tol": 1e-14, "max_iter": 1000}))


def beta(s: np.ndarray, hits: np.ndarray, points: np.ndarray) -> Values:
    from betacal import BetaCalibration, beta_calibration

    rough = BetaCalibration("abm").fit(s, hits.astype(float)).predict(points)
    original = beta_calibration.LogisticRegression
    beta_calibration.LogisticRegression = functools.partial(_exact_regression)
    try:
        model = BetaCalibration("abm").fit(s, hits.astype(float))
    finally:
        beta_calibration.LogisticRegression = original
    a, b, _ = model.calibrator_.map_
    return {
        "a": float(a),
        "b": float(b),
        "c": -float(model.calibrator_.lr_.intercept_[0]),
        "values": model.predict(points).tolist(),
        "as_shipped": rough.tolist(),
    }


def histogram(s: np.ndarray, hits: np.ndarray, points: np.ndarray) -> Values:
    from calibration import HistogramCalibrator, utils

    model = HistogramCalibrator(s.size, BINS)
    model.train_calibration(s, hits)
    edges = utils.get_equal_bins(s, num_bins=BINS)
    mass = np.bincount(np.searchsorted(edges, s), minlength=len(edges))
    m = mass[np.searchsorted(edges, points)]
    return {"values": [_moved(rate, int(n)) for rate, n in zip(model.calibrate(points).tolist(), m, strict=True)]}


def spline(s: np.ndarray, hits: np.ndarray, points: np.ndarray) -> Values:
    from scipy.interpolate import CubicSpline

    order = np.argsort(s, kind="stable")
    gap = np.cumsum(hits[order] - s[order]) / s.size
    rank = np.linspace(0, 1, s.size)
    basis = CubicSpline(np.linspace(0, 1, KNOTS), np.eye(KNOTS), bc_type="natural")
    weights = np.linalg.lstsq(basis(rank), gap, rcond=None)[0]
    low, high = np.searchsorted(s[order], points, "left"), np.searchsorted(s[order], points, "right")
    at = (low + high - 1) / 2 / (s.size - 1)
    return {"values": (points + basis.derivative()(at) @ weights).tolist(), "clip": 1 / (s.size + 2)}


def temperature(logits: np.ndarray, labels: np.ndarray) -> Values:
    from sklearn.calibration import _TemperatureScaling

    z = logits.astype(np.longdouble)
    z -= z.max(axis=1, keepdims=True)
    rows = np.arange(labels.size)
    # Our rule: a true class of probability zero counts as 1e-12.
    z[rows, labels] = np.where(np.isneginf(z[rows, labels]), np.log(1e-12), z[rows, labels])
    label = z[rows, labels]
    z[np.isneginf(z)] = np.longdouble(-1e4)

    def slope(log_scale: np.longdouble) -> np.longdouble:
        v = z * np.exp(log_scale)
        p = np.exp(v)
        return ((p * z).sum(axis=1) / p.sum(axis=1) - label).sum()

    low, high = np.longdouble(-10), np.longdouble(10)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return {
        "temperature": float(np.exp(-(low + high) / 2)),
        "scikit_learn": float(1 / _TemperatureScaling().fit(z.astype(float), labels).beta_),
    }


METHODS: dict[str, Callable[..., Values]] = {
    "isotonic": isotonic,
    "platt": platt,
    "beta": beta,
    "histogram": histogram,
    "spline": spline,
}


def oracle(path: Path) -> Values:
    """The values of every package for one file."""
    data = load(path)
    points, observed = points_of(data["s"])
    result: Values = {"n": data["s"].size, "points": points.tolist()}
    for name, fit in METHODS.items():
        # Where an edge lies between two confidences is a convention.
        result[name] = fit(data["s"], data["hits"], points[:observed] if name in ("histogram", "spline") else points)
    if "logits" in data:
        result["temperature"] = temperature(data["logits"], data["labels"])
    return result


def differences(path: Path, result: Values) -> dict[str, float]:
    """The largest difference between ours and the packages', per method (T: relative)."""
    from bpmcli.core.calibrators import fit_calibrator
    from bpmcli.core.data.log_odds import log_odds_of_confidences
    from bpmcli.core.data.rows import Rows

    data = load(path)
    rows = Rows(
        log_odds_of_confidences(data["s"]), data["hits"], labels=data.get("labels"), logits=data.get("logits"),
        from_probs=True,
    )  # fmt: skip
    at = log_odds_of_confidences(np.array(result["points"]))
    found = {}
    for name in METHODS:
        wanted = dict(result[name])
        values = np.array(wanted["values"])
        g = fit_calibrator(name, rows).calibrator(at[: values.size])[0]
        if "clip" in wanted:
            values = np.clip(values, wanted["clip"], 1 - wanted["clip"])
        found[name] = float(np.abs(g - values).max())
        for rough in ("sigmoid_calibration", "as_shipped"):
            if rough in wanted:
                found[f"{name} {rough}"] = float(np.abs(g - np.array(wanted[rough])).max())
    if result.get("temperature"):
        t = fit_calibrator("temperature", rows).calibrator.parameters()["temperature"]
        wanted = dict(result["temperature"])
        found["temperature"] = abs(t / wanted["temperature"] - 1)
        found["temperature scikit_learn"] = abs(t / wanted["scikit_learn"] - 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    packages = ("numpy", "scipy", "scikit-learn", "betacal", "uncertainty-calibration")
    versions = {name: importlib.metadata.version(name) for name in packages}
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    document: Values = {"made_by": "benchmarks/oracle_calibrators.py", "versions": versions, "files": {}}
    worst: dict[str, float] = {}
    for path in sorted(options.folder.glob("*.npz")):
        result = oracle(path)
        document["files"][path.name] = result
        found = differences(path, result)
        print(f"{path.stem:34}", "  ".join(f"{name} {value:.1e}" for name, value in found.items()), flush=True)
        for name, value in found.items():
            worst[name] = max(value, worst.get(name, 0.0))
    print("\nlargest difference of ours from")
    for name, value in worst.items():
        print(f"  {name:32} {value:.1e}")
    if options.output:
        options.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
