"""How often the verdict of `metrics` is right, on simulated truths.

    python benchmarks/verdicts.py [--sets 200] [--jobs 1] [--sizes 1000 10000] [--only TEXT] [--floor]

For every truth and N: the share of data sets that get its right name, the share with a wrong direction, and the
verdicts given.

*Right name*: it follows from the true curve by the rule of core/metrics/verdict.py. The range of confidence is split
where over- and under-confidence separate best; a side counts if it carries a tenth of the error. Where a side carries
between 5 % and 20 %, both names are accepted.

*Wrong direction*: "over-confident" and "under-confident" claim a direction for all rows, "… above" claims one for the
rows above the crossing that the verdict names and the other one for those below. A claim is wrong if at least 40 % of
the true error of the rows that it is about, weighted by the density of confidence, points the other way: it is then
the opposite of the truth, or the truth has no direction there. On calibrated truths every direction is counted as not
"right" instead.

--floor compares the stated score of a calibrated model with the mean `tce` of calibrated data sets. The thresholds of
the rule were settled with --seed 11 and 12; report with another seed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bpmcli.core.compare.truths import TRUTHS
from bpmcli.core.data.sample import Floats, Sample, sample_from_log_odds, sigmoid
from bpmcli.core.metrics.verdict import verdict
from bpmcli.engines.local import work

SIZES = (1000, 10_000)
AGAINST = 0.4
"""Share of the true error that must point the other way for a claim to be wrong."""

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


def waves(points: float, number: float) -> Rate:
    """Accuracy that swings around the diagonal."""
    return lambda x: np.clip(sigmoid(x) + points * np.sin(2 * np.pi * number * sigmoid(x)), 0.0, 1.0)


def stepped(at: float, below: float, above: float) -> Rate:
    """Accuracy that lies one distance under the confidence up to `at`, and another one beyond."""
    return lambda x: np.clip(sigmoid(x) - np.where(sigmoid(x) > at, above, below), 0.0, 1.0)


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
    "slope 0.85, uniform": Truth(beta(1, 1), lambda x: sigmoid(0.85 * x)),
    "slope 1.2, uniform": Truth(beta(1, 1), lambda x: sigmoid(1.2 * x)),
    "slope 0.8, Beta(4, 2)": Truth(beta(4, 2), lambda x: sigmoid(0.8 * x)),
    "4 points over above 0.9, Beta(4, 1)": Truth(beta(4, 1), lambda x: sigmoid(x) - 0.04 * (sigmoid(x) > 0.9)),
    "0.6 + 0.6 x, Beta(4, 1)": Truth(beta(4, 1), lambda x: sigmoid(0.6 + 0.6 * x)),
    "0.3 + 0.75 x, Beta(2, 1)": Truth(beta(2, 1), lambda x: sigmoid(0.3 + 0.75 * x)),
    "-0.3 + 1.4 x, Beta(2, 1)": Truth(beta(2, 1), lambda x: sigmoid(-0.3 + 1.4 * x)),
    "4 points over above 0.9, 0.5 below, Beta(4, 1)": Truth(beta(4, 1), stepped(0.9, 0.005, 0.04)),
    "6 points over above 0.7, 0.5 below, Beta(2, 1)": Truth(beta(2, 1), stepped(0.7, 0.005, 0.06)),
    "6 points under below 0.6, 0.5 above, uniform": Truth(beta(1, 1), stepped(0.6, -0.06, -0.005)),
    "one wave of 4 points, Beta(2, 1)": Truth(beta(2, 1), waves(0.04, 1.0)),
    "1.5 waves of 4 points, uniform": Truth(beta(1, 1), waves(0.04, 1.5)),
    "2 waves of 5 points, uniform": Truth(beta(1, 1), waves(0.05, 2.0)),
    "3 waves of 3 points, uniform": Truth(beta(1, 1), waves(0.03, 3.0)),
}


class TrueError(NamedTuple):
    """The true error over a large sorted sample of log-odds: running sums of g − s and of |g − s|."""

    x: Floats
    net: Floats
    size: Floats

    @classmethod
    def of(cls, truth: Truth) -> TrueError:
        x = np.sort(truth.draw(400_000, np.random.default_rng(99)))
        gaps = truth.rate(x) - sigmoid(x)
        return cls(x, np.cumsum([0.0, *gaps]), np.cumsum([0.0, *np.abs(gaps)]))

    @property
    def mean(self) -> float:
        return float(self.size[-1] / self.x.size)

    def right_names(self) -> set[str]:
        """The names that are accepted."""
        if self.mean < 1e-12:
            return {"calibrated"}
        below, whole = self.net[1:-1], self.net[-1]
        split = int(np.argmax(np.abs(below) + np.abs(whole - below)))
        sides = np.array([below[split], whole - below[split]])
        one = "over-confident" if whole < 0 else "under-confident"
        crossed = "over-confident-above" if sides[1] < 0 else "under-confident-above"
        if np.abs(sides).sum() < 0.6 * self.size[-1]:
            return {"mixed"}
        smaller = np.abs(sides).min() / self.size[-1] if sides[0] * sides[1] < 0 else 0.0
        return {one} if smaller < 0.05 else {crossed} if smaller > 0.2 else {one, crossed}

    def is_wrong(self, name: str, crossing: float | None) -> bool:
        """Whether the verdict claims a direction that the truth does not have."""
        if self.mean < 1e-12 or name in ("calibrated", "imperfect", "too-few-rows", "mixed"):
            return False
        sign, last = (-1.0 if name.startswith("over") else 1.0), self.x.size
        if crossing is None:
            return self._against(sign, 0, last)
        split = int(np.searchsorted(sigmoid(self.x), crossing))
        return self._against(sign, split, last) or self._against(-sign, 0, split)

    def _against(self, sign: float, first: int, last: int) -> bool:
        """Whether too much of the error of these rows points against the sign."""
        size = self.size[last] - self.size[first]
        return bool(size > 0 and size - sign * (self.net[last] - self.net[first]) >= 2 * AGAINST * size)


class Found(NamedTuple):
    """One data set: its verdict, its tce and the stated score of a calibrated model."""

    name: str
    crossing: float | None
    tce: float
    noise_floor: float


@dataclass(frozen=True)
class Judge:
    """Draws a data set and judges it."""

    seed: int

    def __call__(self, job: tuple[str, int, int]) -> Found:
        name, n, run = job
        sample = draw(CASES[name], n, np.random.default_rng([self.seed, list(CASES).index(name), n, run]))
        found = verdict(sample)
        return Found(found.name, found.crossing, found.tce, found.noise_floor)


def draw(truth: Truth, n: int, rng: np.random.Generator) -> Sample:
    """One data set."""
    x = truth.draw(n, rng)
    return sample_from_log_odds(x, rng.random(n) < truth.rate(x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--only", default="", help="truths whose name contains this, to split a long run")
    parser.add_argument("--floor", action="store_true", help="only the score of calibrated models, also at N = 300")
    options = parser.parse_args()
    names = [n for n in CASES if options.only in n and (not options.floor or n.startswith("calibrated"))]
    sizes = (300, *SIZES) if options.floor else tuple(options.sizes)
    print(f"{'truth':48s}{'error':>7s}{'N':>7s}{'right':>7s}{'wrong direction':>17s}  verdicts")
    for name in names:
        truth = TrueError.of(CASES[name])
        for n in sizes:
            jobs = [(name, n, run) for run in range(options.sets)]
            found = [found for found in work(Judge(options.seed), jobs, options.jobs) if isinstance(found, Found)]
            assert len(found) == options.sets
            line = floor_line(found) if options.floor else verdict_line(found, truth)
            print(f"{name:48s}{truth.mean:7.4f}{n:7d}{line}", flush=True)


def floor_line(found: list[Found]) -> str:
    """The mean tce of the data sets beside the stated score of a calibrated model."""
    mean, stated = np.mean([f.tce for f in found]), np.mean([f.noise_floor for f in found])
    return f"  tce {mean:.5f}, stated {stated:.5f}, ratio {mean / stated:.2f}"


def verdict_line(found: list[Found], truth: TrueError) -> str:
    """Share of right names and of wrong directions, and all verdicts."""
    verdicts, right = Counter(f.name for f in found), truth.right_names()
    share = sum(verdicts[v] for v in right) / len(found)
    wrong = sum(truth.is_wrong(f.name, f.crossing) for f in found) / len(found)
    listed = ", ".join(f"{v} {100 * c / len(found):.1f} %" for v, c in verdicts.most_common())
    return f"{share:7.3f}{wrong:17.3f}  {listed}  (accepted: {', '.join(sorted(right))})"


if __name__ == "__main__":
    main()
