"""The averaged estimator against every calibrator and metric: most figures of docs/ESTIMATOR.md.

    python benchmarks/estimator_study.py DATA_FOLDER [--parts real,ead,tce] [--repeats 12] [--runs 100] [--seed 5]

real  held-out Brier score, NLL, debiased ECE and KS after fitting 200, 1000 and 5000 rows, on the data sets
      that the prior scales were tuned on and on the others. `ece-fair` and `ks-fair` take the rows in the order
      of the raw confidence, the same for every calibrator. In the order of its own output, a calibrator with ties
      is favoured where the true curve is not monotone: inside a run of ties a metric cannot see the fall.
ead   distance from the true curve on D1–D5, N = 10,000.
tce   RMSE of every metric against the exact TCE on D1–D5, N = 500 … 5000.
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path

import numpy as np

import bpmcli.core.calibrators.averaged  # noqa: F401  registers bpm-averaged
from bpmcli.core.calibrators import METHODS, FitOptions
from bpmcli.core.compare.truths import TRUTHS, ead, simulate
from bpmcli.core.curves.averaged.mixture import fit_averaged
from bpmcli.core.curves.averaged.tce import tce_averaged
from bpmcli.core.curves.bpm import fit_bpm
from bpmcli.core.data.log_odds import log_odds_of_confidences, reduce_logits, reduce_probs
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, sample_from_log_odds, sigmoid
from bpmcli.core.metrics import METRICS, MetricOptions
from bpmcli.errors import BpmError

NEW = "bpm-averaged"

TUNED_ON = (
    "densenet_bc_100_c100", "f538_nfl_games", "labelerrors_imdb", "lenet_5_c10", "nannyml_employment_ref2015",
    "resnet110_c10_test", "resnet110_c10_val", "top_densenet40_c10", "top_in1k_tv_densenet161", "top_snacks",
)  # fmt: skip
"""About every other data set in alphabetical order; the two data sets of one model are kept together. Prior scales
and the list of formulas were chosen on these. The other eleven are not a clean test of the shape `bends`: its knots at
quantiles, their number, its step sizes, ceiling and weight, and that it may fall, were chosen after some sixty variants
had been scored on these data sets too. The scores `ece-fair` and `ks-fair` were not planned either: they were added
when isotonic regression turned out to be ahead by `ece-debiased` and `ks`."""

SIZES = (200, 1000, 5000)
HELD_OUT = (700, 10_000)
"""The fewest and the most rows to score on."""

SCORES = ("brier", "nll", "ece-debiased", "ks", "ece-fair", "ks-fair")
SEED = 5
"""Choices were made on other seeds (0, 1, 2 and 6)."""

TCE_SIZES = tuple(range(500, 5001, 500))


def load(path: Path) -> tuple[Floats, Floats]:
    """Log-odds and hits, row by row."""
    data = np.load(path)
    labels = data["labels"].ravel()
    if "confidence" in data:
        return log_odds_of_confidences(data["confidence"]), (data["pred"] == labels).astype(np.float64)
    if "probs" in data and data["probs"].ndim == 1:
        event = log_odds_of_confidences(data["probs"])
        return np.abs(event), ((event > 0) == (labels > 0)).astype(np.float64)
    found = reduce_logits(data["logits"]) if "logits" in data else reduce_probs(data["probs"])
    return found.log_odds, (found.predictions == labels).astype(np.float64)


def held_out_scores(g: Floats, miss: Floats, x: Floats, hits: Floats) -> list[float]:
    """The scores of held-out rows, in the order of SCORES; a probability of 0 counts as 1e-12."""
    g, miss = np.maximum(g, 1e-12), np.maximum(miss, 1e-12)
    debiased, ks = METRICS["ece-debiased"].compute, METRICS["ks"].compute
    own = sample_from_log_odds(np.log(g) - np.log(miss), hits)
    # The same bins for all: ties are broken by the order of the raw confidences.
    order = np.argsort(np.argsort(x, kind="stable"), kind="stable") * 1e-9
    fair = sample_from_log_odds(np.log(g) - np.log(miss) + order, hits)
    options = MetricOptions()
    return [
        float(np.mean(np.where(hits > 0, miss, g) ** 2)),
        -float(np.mean(np.log(np.where(hits > 0, g, miss)))),
        debiased(own, options).value or 0.0,
        ks(own, options).value or 0.0,
        debiased(fair, options).value or 0.0,
        ks(fair, options).value or 0.0,
    ]


def real_data(folder: Path, repeats: int) -> None:
    """The part `real`: held-out scores of every calibrator on real data."""
    names = [name for name, entry in METHODS.items() if not entry.needs_distribution]
    table: dict[tuple[int, str, str], list[float]] = {}
    refused: dict[tuple[int, str], int] = {}
    for path in sorted(folder.glob("*.npz")):
        x, hits = load(path)
        for size in SIZES:
            if x.size < size + HELD_OUT[0]:
                continue
            scores: dict[str, list[list[float]]] = {name: [] for name in names}
            for repeat in range(repeats):
                order = np.random.default_rng([zlib.crc32(path.stem.encode()), size, repeat]).permutation(x.size)
                fit, test = order[:size], order[size : size + HELD_OUT[1]]
                rows = Rows(x[fit], hits[fit] > 0)
                for name in names:
                    try:
                        g, miss = METHODS[name].fit(rows, FitOptions()).calibrator(x[test])
                    except BpmError:
                        refused[size, name] = refused.get((size, name), 0) + 1
                        g, miss = sigmoid(x[test]), sigmoid(-x[test])
                    scores[name].append(held_out_scores(g, miss, x[test], hits[test]))
            for name in names:
                table[size, path.stem, name] = np.mean(scores[name], axis=0).tolist()
    for title, wanted in (("tuned on", True), ("reported", False)):
        for size in SIZES:
            sets = sorted({s for n, s, _ in table if n == size and (s in TUNED_ON) == wanted})
            means = {name: np.mean([table[size, s, name] for s in sets], axis=0) for name in names}
            best = np.min([means[name] for name in names], axis=0)
            print(f"\n{title}: {len(sets)} data sets, {size} calibration rows; * is the best")
            print(f"{'':14}" + "".join(f"{score:>14}" for score in SCORES) + f"{'refused':>10}")
            for name in names:
                cells = "".join(f"{v:13.5f}{'*' if v == b else ' '}" for v, b in zip(means[name], best, strict=True))
                print(f"{name:14}{cells}{refused.get((size, name), 0):10}")
            ratio = means[NEW] / np.min([means[name] for name in names if name != NEW], axis=0)
            print(f"{'new / best other':14}" + "".join(f"{r:13.3f} " for r in ratio))


def ead_table(runs: int, seed: int) -> None:
    """The part `ead`: distances from the true curve on D1–D5."""
    print(f"\nEAD, N = 10000, {runs} runs")
    for name, truth in TRUTHS.items():
        both = []
        for run in range(runs):
            sample = simulate(truth, 10_000, np.random.default_rng([seed, run, 10_000, int(name[1])])).sample()
            both.append([ead(fit_bpm(sample).curve, truth.curve), ead(fit_averaged(sample), truth.curve)])
        (paper, new), errors = np.mean(both, axis=0), np.std(both, axis=0) / np.sqrt(runs)
        error = np.std([b - a for a, b in both]) / np.sqrt(runs)
        found = f"bpm {paper:.4f} ± {errors[0]:.4f}  {NEW} {new:.4f} ± {errors[1]:.4f}"
        print(f"{name}  {found}  difference {new - paper:+.4f} ± {error:.4f}", flush=True)


def tce_table(runs: int, seed: int) -> None:
    """The part `tce`: RMSE of every metric against the exact TCE on D1–D5."""
    names = [name for name in METRICS if name != "tce"]
    rmse = {name: np.zeros((len(TRUTHS), len(TCE_SIZES))) for name in [*names, "tce"]}
    bias = np.zeros((len(TRUTHS), len(TCE_SIZES)))
    for i, (label, truth) in enumerate(TRUTHS.items()):
        exact = truth.tce()
        for j, n in enumerate(TCE_SIZES):
            errors: dict[str, list[float]] = {name: [] for name in rmse}
            for run in range(runs):
                sample = simulate(truth, n, np.random.default_rng([seed, run, n, int(label[1])])).sample()
                for name in names:
                    value = METRICS[name].compute(sample, MetricOptions()).value
                    errors[name].append((value or 0.0) - exact)
                errors["tce"].append(tce_averaged(sample).value - exact)
            for name, values in errors.items():
                rmse[name][i, j] = np.sqrt(np.mean(np.square(values)))
            bias[i, j] = np.mean(errors["tce"])
    best = np.min([rmse[name] for name in names], axis=0)
    ratio = rmse["tce"] / best
    print(f"\nRMSE of tce over the best other metric, {runs} runs (rows D1–D5, columns N = 500 … 5000)")
    print(np.round(ratio, 3))
    print("bias of tce\n", np.round(bias, 4))
    stacked = np.array(list(rmse.values()))
    for name, values in rmse.items():
        rank = 1 + (stacked < values - 1e-12).sum(axis=0)
        print(f"{name:14} mean rank {rank.mean():.2f}  mean RMSE / best other {np.mean(values / best):.3f}")
    within = int((ratio <= 1.05).sum())
    print(f"within 5 %: {within} of {ratio.size} cells; worst {ratio.max():.3f}; D3 bias at 5000 {bias[2, -1]:+.4f}")


def main() -> None:
    """Print the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", default="real,ead,tce")
    parser.add_argument("--repeats", type=int, default=12, help="splits of every data set")
    parser.add_argument("--runs", type=int, default=100, help="simulated data sets")
    parser.add_argument("--seed", type=int, default=SEED, help="of the simulated data sets")
    options = parser.parse_args()
    parts = options.parts.split(",")
    if "real" in parts:
        real_data(options.folder, options.repeats)
    if "ead" in parts:
        ead_table(options.runs, options.seed)
    if "tce" in parts:
        tce_table(options.runs, options.seed)


if __name__ == "__main__":
    main()
