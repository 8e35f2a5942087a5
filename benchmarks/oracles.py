"""How far every number is from its oracle, on a folder of real data sets.

    python benchmarks/oracles.py DATA_FOLDER REFERENCE_JSON

The reference holds, per file, values of independent implementations (see the keys below). Also fits
every file from 50 random starts, and D1–D5 at three sizes, and prints what the best of them gained; the
last column is the same for `--prior`, the worst of all other curve families, relative to the loss.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.curves.bpm import bounds, fit_bpm, objective
from bpmcli.core.curves.families import BETA, FAMILIES, IDENTITY, Family
from bpmcli.core.curves.solve import minimise
from bpmcli.core.data.binning import scheme_bins, scheme_counts
from bpmcli.core.data.sample import Floats, Sample
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.io import read_rows

SAME = {
    "ece": "ece_equal_mass_15_ties_spread",
    "ece-sweep": "ece_sweep_p1_ties_spread",
    "ks": "ks_ties_spread",
    "smece": "smece_exact_definition",
    "ls-ece": "ls_ece_sigma_1_15",
}


def gained_by_random_starts(sample: Sample, rng: np.random.Generator, starts: int = 50) -> float:
    """Our objective less the best of many starts; positive means that we missed something."""
    f = objective(scheme_bins(sample, scheme_counts(sample.n)), BETA)
    lower, upper = bounds(BETA, "paper")
    best = min(
        minimise(f, np.array([*rng.exponential(2, 2), rng.normal(0, 3)]), lower, upper).value for _ in range(starts)
    )
    return fit_bpm(sample).objective - 1 - best


def random_curve(family: Family, log_odds: Floats, rng: np.random.Generator) -> Floats:
    """A curve through a random point above a random bin, with a slope of any size."""
    g = rng.uniform(0.02, 0.98)
    slope = 10 ** rng.uniform(-3, 1.3) * (1 if family.upper[1] > 0 else -1)
    level = family.link.forward(np.array([np.log(g / (1 - g))]))[0]
    at = log_odds[rng.integers(log_odds.size)]
    return np.array([level - slope * family.columns(np.array([at]))[1, 0], slope])


def missed_by_priors(sample: Sample, rng: np.random.Generator, starts: int = 50) -> float:
    """How far a family's fit is above the best of many starts, relative to its loss; the worst of all families."""
    bins, worst = scheme_bins(sample, scheme_counts(sample.n)), -np.inf
    x = np.log(bins.confidences) - np.log(bins.complements)
    for family in FAMILIES.values():
        if family is BETA or family is IDENTITY:
            continue
        f, limits = objective(bins, family), bounds(family, "paper")
        best = min(minimise(f, random_curve(family, x, rng), *limits).value for _ in range(starts))
        worst = max(worst, (fit_bpm(sample, family=family).objective - 1) / best - 1)
    return worst


def main() -> None:
    folder, reference = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    rng = np.random.default_rng(0)
    worst: dict[str, float] = {}
    print(f"{'data set':32s}" + "".join(f"{k:>11s}" for k in SAME) + "   debiased/se  authors  50 starts    priors")
    for path in sorted(folder.glob("*.npz")):
        known = reference[path.stem]
        sample = read_rows(str(path)).rows.sample
        values = {k: m.value for k, m in measure(sample, None, MetricOptions()).items()}
        line = f"{path.stem:32s}"
        for name, key in SAME.items():
            value, expected = values[name], known.get(key)
            if value is None or expected is None:
                line += f"{'-':>11s}"
                continue
            worst[name] = max(worst.get(name, 0.0), abs(value - expected))
            line += f"{value - expected:11.1e}"
        debiased = values["ece-debiased"]
        assert debiased is not None
        sigmas = (debiased - known["ece_debiased_p1_15_mc_mean"]) / known["ece_debiased_p1_15_mc_se"]
        line += f"{sigmas:12.2f}" + ("t" if known["tied_rows"] else " ")
        theirs = known["bpm_authors_code"]
        found = fit_bpm(sample, variant="authors").curve.params
        off = max(abs(a - theirs[k]) for a, k in zip(found, ("alpha", "beta", "c_paper_sign"), strict=True))
        tied = known["tied_rows"] >= 0.01 * known["n"]
        if not tied:
            worst["authors"] = max(worst.get("authors", 0.0), off)
        gained = gained_by_random_starts(sample, rng)
        worst["50 starts"] = max(worst.get("50 starts", 0.0), gained)
        missed = missed_by_priors(sample, rng)
        worst["priors"] = max(worst.get("priors", 0.0), missed)
        print(line + f"{off:9.1e}" + ("t" if tied else " ") + f"{gained:10.1e}{missed:10.1e}")
    print("(t: tied rows, where the public code merges or misorders ties; not counted for 'authors')")
    for name, truth in TRUTHS.items():
        for n in (500, 2000, 10_000):
            sample = simulate(truth, n, rng).sample()
            gained, missed = gained_by_random_starts(sample, rng), missed_by_priors(sample, rng)
            worst["50 starts"], worst["priors"] = max(worst["50 starts"], gained), max(worst["priors"], missed)
            print(f"{name} n={n:<6d} 50 starts gain {gained:.1e}, priors {missed:.1e}")
    print("worst:", {k: f"{v:.1e}" for k, v in worst.items()})


if __name__ == "__main__":
    main()
