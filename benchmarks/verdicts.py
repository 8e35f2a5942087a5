"""How often the verdict of `metrics` is right, on simulated truths.

    python benchmarks/verdicts.py [--sets 200] [--jobs 1] [--floor]

For every truth and N: the share of data sets that get its right name, the share with a wrong direction, and the
verdicts given. The right name follows from the true curve by the rule of core/metrics/verdict.py: the range of
confidence is split where over- and under-confidence separate best, and a side counts if it carries a tenth of the
error. Where a side carries between 5 % and 20 %, both names are accepted. --floor compares the stated score of a
calibrated model with the mean `tce` of calibrated data sets.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bpmcli.core.compare.truths import TRUTHS
from bpmcli.core.curves.averaged.tce import tce_averaged
from bpmcli.core.data.sample import Floats, Sample, sample_from_log_odds, sigmoid
from bpmcli.core.metrics.verdict import verdict
from bpmcli.engines.local import work

SIZES = (1000, 10_000)
Draw = Callable[[int, np.random.Generator], Floats]
Rate = Callable[[Floats], Floats]


def beta(a: float, b: float) -> Draw:
    """Log-odds of Beta confidences, drawn as differences of logarithms of gammas so that they do not saturate."""

    def draw(n: int, rng: np.random.Generator) -> Floats:
        def log_gamma(shape: float) -> Floats:
            return np.log(rng.standard_gamma(shape + 1, n)) + np.log(rng.random(n)) / shape

        return np.clip(log_gamma(a) - log_gamma(b), -600, 600)

    return draw


def ten_values(n: int, rng: np.random.Generator) -> Floats:
    """Ten distinct confidences."""
    s = rng.choice(np.arange(10) * 0.05 + 0.5, n)
    return np.log(s) - np.log1p(-s)


class Truth(NamedTuple):
    """A distribution of log-odds and the true accuracy at them."""

    draw: Draw
    rate: Rate


def shifted(points: float) -> Rate:
    """Accuracy that differs by a fixed amount, kept in [0, 1]."""
    return lambda x: np.clip(sigmoid(x) + points, 0.0, 1.0)


def paper(name: str) -> Truth:
    """One of D1–D5."""
    truth = TRUTHS[name]
    return Truth(beta(truth.density.a1, truth.density.a2), lambda x: truth.curve(x)[0])


CASES: dict[str, Truth] = {
    **{name: paper(name) for name in TRUTHS},
    "calibrated, Beta(2, 0.4)": Truth(beta(2, 0.4), sigmoid),
    "calibrated, uniform": Truth(beta(1, 1), sigmoid),
    "calibrated, Beta(2.77, 0.04)": Truth(beta(2.77, 0.04), sigmoid),
    "calibrated, ten values": Truth(ten_values, sigmoid),
    "5 points over, Beta(4, 2)": Truth(beta(4, 2), shifted(-0.05)),
    "5 points under, Beta(4, 2)": Truth(beta(4, 2), shifted(0.05)),
    "5 points over, ten values": Truth(ten_values, shifted(-0.05)),
    "5 points, slope 0.72, uniform": Truth(beta(1, 1), lambda x: sigmoid(0.72 * x)),
    "5 points, slope 1.42, uniform": Truth(beta(1, 1), lambda x: sigmoid(1.42 * x)),
    "0.4 + 0.6 x, Beta(1.5, 0.5)": Truth(beta(1.5, 0.5), lambda x: sigmoid(0.4 + 0.6 * x)),
    "ceiling 0.9, Beta(2, 0.4)": Truth(beta(2, 0.4), lambda x: 0.9 * sigmoid(x)),
    "wiggles of 3 points, uniform": Truth(beta(1, 1), lambda x: sigmoid(x) + 0.03 * np.sin(6 * np.pi * sigmoid(x))),
}


def right_names(truth: Truth) -> tuple[set[str], float]:
    """The names that are accepted, and the true error."""
    x = np.sort(truth.draw(400_000, np.random.default_rng(99)))
    gaps = truth.rate(x) - sigmoid(x)
    total = np.abs(gaps).sum()
    if total / x.size < 1e-12:
        return {"calibrated"}, 0.0
    below = np.cumsum(gaps)[:-1]
    split = int(np.argmax(np.abs(below) + np.abs(gaps.sum() - below)))
    sides = np.array([below[split], gaps.sum() - below[split]])
    error = float(total / x.size)
    whole = "over-confident" if gaps.sum() < 0 else "under-confident"
    crossed = "over-confident-above" if sides[1] < 0 else "under-confident-above"
    if np.abs(sides).sum() < 0.6 * total:
        return {"mixed"}, error
    smaller = np.abs(sides).min() / total if sides[0] * sides[1] < 0 else 0.0
    return ({whole} if smaller < 0.05 else {crossed} if smaller > 0.2 else {whole, crossed}), error


def opposite(found: str, right: set[str]) -> bool:
    """A direction where there is none, or the reverse of the true one."""
    if right == {"calibrated"} or found in ("calibrated", "too-few-rows", "mixed"):
        return False
    return not any(found.removesuffix("-above") == name.removesuffix("-above") for name in right)


@dataclass(frozen=True)
class Judge:
    """One data set: its verdict, its tce and the stated score of a calibrated model."""

    seed: int

    def __call__(self, job: tuple[str, int, int]) -> tuple[str, float, float]:
        name, n, run = job
        sample = draw(CASES[name], n, np.random.default_rng([self.seed, list(CASES).index(name), n, run]))
        found = verdict(sample)
        return found.name, tce_averaged(sample).value, found.noise_floor


def draw(truth: Truth, n: int, rng: np.random.Generator) -> Sample:
    """One data set."""
    x = truth.draw(n, rng)
    return sample_from_log_odds(x, rng.random(n) < truth.rate(x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--floor", action="store_true", help="only the score of calibrated models, also at N = 300")
    options = parser.parse_args()
    names = [name for name in CASES if not options.floor or name.startswith("calibrated")]
    sizes = (300, *SIZES) if options.floor else SIZES
    print(f"{'truth':32s}{'error':>7s}{'N':>7s}{'right':>7s}{'wrong direction':>17s}  verdicts")
    for name in names:
        right, error = right_names(CASES[name])
        for n in sizes:
            jobs = [(name, n, run) for run in range(options.sets)]
            found = [found for found in work(Judge(options.seed), jobs, options.jobs) if isinstance(found, tuple)]
            assert len(found) == options.sets
            line = floor_line(found) if options.floor else verdict_line(found, right)
            print(f"{name:32s}{error:7.4f}{n:7d}{line}", flush=True)


def floor_line(found: list[tuple[str, float, float]]) -> str:
    """The mean tce of the data sets beside the stated score of a calibrated model."""
    mean, stated = np.mean([f[1] for f in found]), np.mean([f[2] for f in found])
    return f"  tce {mean:.5f}, stated {stated:.5f}, ratio {mean / stated:.2f}"


def verdict_line(found: list[tuple[str, float, float]], right: set[str]) -> str:
    """Share of right names and of wrong directions, and all verdicts."""
    verdicts = Counter(f[0] for f in found)
    share = sum(verdicts[v] for v in right) / len(found)
    wrong = sum(count for v, count in verdicts.items() if opposite(v, right)) / len(found)
    listed = ", ".join(f"{v} {100 * c / len(found):.1f} %" for v, c in verdicts.most_common())
    return f"{share:7.3f}{wrong:17.3f}  {listed}  (accepted: {', '.join(sorted(right))})"


if __name__ == "__main__":
    main()
