"""The increase of a metric between runs with different rows: samples of different sizes are compared fairly."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from bpmcli.core.data.sample import Sample, sample_from_log_odds, sigmoid
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.core.metrics.increase import increase, unpaired_increases

OPTIONS = MetricOptions()
PLUG_IN = ["ece", "smece", "mcb"]
NAMES = [*PLUG_IN, "ece-debiased"]


def rows(n: int, seed: int, slope: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(1.0, 1.0, n)
    return x, rng.random(n) < sigmoid(slope * x)


def values(first: Sample, second: Sample, names: list[str]) -> dict[str, tuple[float | None, float | None]]:
    found = [measure(sample, names, OPTIONS) for sample in (first, second)]
    return {name: (found[0][name].value, found[1][name].value) for name in names}


@pytest.mark.parametrize("swap", [False, True])
def test_the_larger_run_is_measured_with_as_many_rows_as_the_smaller(swap: bool) -> None:
    """Oracle: rows of the larger run, drawn without replacement."""
    larger, smaller = sample_from_log_odds(*rows(4000, 0)), sample_from_log_odds(*rows(1500, 1))
    pair = (smaller, larger) if swap else (larger, smaller)
    both = values(*pair, NAMES)
    found = unpaired_increases(*pair, both, OPTIONS, 0.9, 400)
    for name in NAMES:
        fewer = _of_fewer_rows(name)
        own = measure(smaller, [name], OPTIONS)[name].value
        plain = measure(larger, [name], OPTIONS)[name].value
        assert own is not None
        assert plain is not None
        assert name not in PLUG_IN or fewer > 1.3 * plain, "otherwise this test shows nothing"
        expected = fewer - own if swap else own - fewer
        low, high = found[name].low, found[name].high
        assert low is not None
        assert high is not None
        # The limits also contain the difference of the values, so only one of them shows the middle.
        half = 1.6448536 * float(np.hypot(_spread(4000, 0, name), _spread(1500, 1, name)))
        near, sign = (low, -1) if not swap else (high, 1)
        assert near == pytest.approx(expected + sign * half, abs=0.15 * abs(fewer - plain) + 0.12 * half)


@cache
def _of_fewer_rows(name: str) -> float:
    """The mean over 1500 of the larger run's rows, drawn without replacement."""
    x, hits = rows(4000, 0)
    rng = np.random.default_rng(2)
    some = [sample_from_log_odds(x[drawn], hits[drawn]) for drawn in (rng.permutation(4000)[:1500] for _ in range(120))]
    return float(np.mean([measure(one, [name], OPTIONS)[name].value for one in some]))


@cache
def _spread(n: int, seed: int, name: str) -> float:
    """The standard error by resamples, in another way: rows drawn one by one."""
    x, hits = rows(n, seed)
    rng, found = np.random.default_rng(3), []
    for _ in range(150):
        drawn = rng.integers(0, n, n)
        found.append(measure(sample_from_log_odds(x[drawn], hits[drawn]), [name], OPTIONS)[name].value)
    return float(np.std(np.array(found, dtype=float)))


def test_samples_of_one_size_are_compared_as_they_are() -> None:
    first, second = sample_from_log_odds(*rows(800, 4)), sample_from_log_odds(*rows(800, 5, 0.4))
    both = values(first, second, ["ece", "brier", "tce"])
    for name, found in unpaired_increases(first, second, both, OPTIONS, 0.9, 200).items():
        before, after = both[name]
        assert before is not None
        assert after is not None
        assert found.low is not None
        assert found.high is not None
        assert (found.low + found.high) / 2 == pytest.approx(after - before, abs=1e-12)


def test_limits_contain_the_difference_of_the_values() -> None:
    found = increase(0.1, 0.3, -0.15, 0.01, 0.9)
    assert found.high == pytest.approx(0.2)
    assert found.low == pytest.approx(0.05 - 0.01 * 1.6448536)
    assert unpaired_increases(*[sample_from_log_odds(*rows(50, 6))] * 2, {"ece": (None, 0.1)}, OPTIONS, 0.9)["ece"] == (
        None, None, False,
    )  # fmt: skip
