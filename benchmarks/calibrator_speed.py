"""Every calibrator's fit beside the public packages for the same method, in one run.

    python benchmarks/calibrator_speed.py [-n ROWS] [-k CLASSES] [--repeat R]

bpmcli starts from unsorted log-odds and hits (sorting included) or from logits and labels, the other packages from the
arrays they ask for. The best of R runs counts. Packages that are not installed are skipped with a message:
    pip install scikit-learn betacal uncertainty-calibration netcal
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators import METHODS, fit_calibrator
from bpmcli.core.data.log_odds import reduce_logits
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import sigmoid


@dataclass
class Data:
    """One simulated classifier: logits that need a temperature of 1.7."""

    logits: np.ndarray
    labels: np.ndarray
    log_odds: np.ndarray
    hits: np.ndarray
    predictions: np.ndarray

    @classmethod
    def simulate(cls, n: int, k: int) -> Data:
        rng = np.random.default_rng(0)
        logits = 2 * rng.normal(size=(n, k))
        logits[np.arange(n), rng.integers(k, size=n)] += 5
        labels = (logits / 1.7 + rng.gumbel(size=(n, k))).argmax(axis=1)
        reduced = reduce_logits(logits)
        return cls(logits, labels, reduced.log_odds, reduced.predictions == labels, reduced.predictions)

    def rows(self) -> Rows:
        return Rows(self.log_odds, self.hits, None, self.predictions, self.labels, None, self.logits)


Fit = Callable[[], object]


def scikit_learn(data: Data) -> Iterator[tuple[str, str, Fit]]:
    from sklearn import calibration
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression

    x, s, hits = data.log_odds, sigmoid(data.log_odds), data.hits.astype(float)
    yield "isotonic", "IsotonicRegression", lambda: IsotonicRegression(out_of_bounds="clip").fit(s, hits)
    yield "platt", "_SigmoidCalibration", lambda: calibration._SigmoidCalibration().fit(x, hits)
    for solver in ("lbfgs", "newton-cholesky"):
        regression = LogisticRegression(C=1e10, solver=solver)
        yield "platt", f"LogisticRegression {solver}", lambda r=regression: r.fit(x[:, None], hits)
        yield "beta", f"LogisticRegression {solver}", lambda r=regression: r.fit(_beta_columns(s), hits)
    if hasattr(calibration, "_TemperatureScaling"):
        yield (
            "temperature",
            "_TemperatureScaling",
            lambda: calibration._TemperatureScaling().fit(data.logits, data.labels),
        )


def _beta_columns(s: np.ndarray) -> np.ndarray:
    return np.stack([np.log(s), -np.log1p(-s)], axis=1)


def betacal(data: Data) -> Iterator[tuple[str, str, Fit]]:
    from betacal import BetaCalibration

    s = sigmoid(data.log_odds)
    yield "beta", "BetaCalibration abm", lambda: BetaCalibration("abm").fit(s, data.hits.astype(float))


def uncertainty_calibration(data: Data) -> Iterator[tuple[str, str, Fit]]:
    from calibration import HistogramCalibrator, PlattCalibrator

    s = sigmoid(data.log_odds)
    yield "histogram", "HistogramCalibrator", lambda: HistogramCalibrator(s.size, 15).train_calibration(s, data.hits)
    yield "platt", "PlattCalibrator", lambda: PlattCalibrator(s.size, 15).train_calibration(s, data.hits)


def netcal(data: Data) -> Iterator[tuple[str, str, Fit]]:
    from netcal.binning import HistogramBinning, IsotonicRegression
    from netcal.scaling import BetaCalibration, LogisticCalibration, TemperatureScaling

    s, hits = sigmoid(data.log_odds), data.hits.astype(int)
    z = data.logits - data.logits.max(axis=1, keepdims=True)
    probs = np.exp(z)
    probs /= probs.sum(axis=1, keepdims=True)
    yield "histogram", "HistogramBinning", lambda: HistogramBinning(15, equal_intervals=False).fit(s, hits)
    yield "isotonic", "IsotonicRegression", lambda: IsotonicRegression().fit(s, hits)
    yield "platt", "LogisticCalibration", lambda: LogisticCalibration().fit(s, hits, tensorboard=False)
    yield "beta", "BetaCalibration", lambda: BetaCalibration().fit(s, hits, tensorboard=False)
    yield "temperature", "TemperatureScaling", lambda: TemperatureScaling().fit(probs, data.labels, tensorboard=False)


PACKAGES = {
    "scikit-learn": scikit_learn,
    "betacal": betacal,
    "uncertainty-calibration": uncertainty_calibration,
    "netcal": netcal,
}


def seconds(run: Fit, repeat: int) -> float:
    """The best of `repeat` runs; one that takes half a minute is not repeated."""
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
        if best > 30:
            break
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=1_000_000)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    data = Data.simulate(options.n, options.k)
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "scipy")}
    others: list[tuple[str, str, str, Fit]] = []
    for package, fits in PACKAGES.items():
        try:
            versions[package] = importlib.metadata.version(package)
            others += [(name, package, what, fit) for name, what, fit in fits(data)]
        except (ImportError, importlib.metadata.PackageNotFoundError) as error:
            print(f"skipped {package}: {error}")
    for module in ("scipy.optimize", "scipy.interpolate"):  # imports are not fits
        importlib.import_module(module)
    print(
        f"N = {options.n:,}, K = {options.k}, best of {options.repeat};",
        ", ".join(f"{k} {v}" for k, v in versions.items()),
    )
    print(f"\n| {'method':11} | {'package':23} | {'what':34} | {'seconds':>8} | {'/ ours':>7} |")
    print(f"|{'-' * 13}|{'-' * 25}|{'-' * 36}|{'-' * 9}:|{'-' * 8}:|")
    for name in METHODS:
        if name == "identity":
            continue
        ours = seconds(lambda name=name: fit_calibrator(name, data.rows()), options.repeat)
        print(f"| {name:11} | {'bpmcli':23} | {'':34} | {ours:8.3f} | {1:7.1f} |", flush=True)
        for other, package, what, fit in others:
            if other == name:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    theirs = seconds(fit, options.repeat)
                print(f"| {name:11} | {package:23} | {what:34} | {theirs:8.3f} | {theirs / ours:7.1f} |", flush=True)


if __name__ == "__main__":
    main()
