"""The tables that benchmarks/arena.py prints, from stored results."""

from __future__ import annotations

from typing import Any

import numpy as np

DRAWS = 2000
LEVEL = 0.95
Results = list[dict[str, Any]]


def loss_table(results: Results, names: list[str], score: str) -> np.ndarray:
    """Experiments × methods; NaN where a method did not take part, infinity where it failed."""
    table = np.full((len(results), len(names)), np.nan)
    for row, entry in enumerate(results):
        for column, name in enumerate(names):
            found = entry["methods"].get(name)
            if found is not None:
                table[row, column] = np.inf if "error" in found else found[score]
    return table


def wins(losses: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Per experiment, the share of the other methods that have a higher loss; ties count half."""
    with np.errstate(invalid="ignore"):
        better = (losses[:, None] < others) + 0.5 * (losses[:, None] == others)
    took_part = ~np.isnan(others)
    shares: np.ndarray = np.where(took_part, better, 0.0).sum(axis=1) / np.maximum(took_part.sum(axis=1), 1)
    return shares


def interval(values: np.ndarray, datasets: np.ndarray) -> tuple[float, float]:
    """Percentile interval of the mean when whole data sets are drawn again, with a fixed seed."""
    names, index = np.unique(datasets, return_inverse=True)
    sums, counts = np.bincount(index, values), np.bincount(index)
    drawn = np.random.default_rng(0).integers(names.size, size=(DRAWS, names.size))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _leaderboard(results: Results, names: list[str], pool: list[str]) -> None:
    datasets = np.array([entry["dataset"] for entry in results])
    tables = {score: loss_table(results, names, score) for score in ("log_loss", "brier", "ece", "class_ece")}
    extra = {s: loss_table(results, names, s) for s in ("accuracy", "kept", "fit_s", "apply_s")}
    ranked = []
    for column, name in enumerate(names):
        if np.isnan(tables["log_loss"][:, column]).all():
            continue
        others = [i for i, other in enumerate(names) if other in pool and other != name]
        shares = {s: wins(t[:, column], t[:, others]) for s, t in tables.items() if s in ("log_loss", "brier")}
        ranked.append((float(shares["log_loss"].mean()), column, name, shares))
    print(
        "| method | log loss: win rate | Brier: win rate | ECE | class-wise ECE | infinite | failed | accuracy "
        "| class kept | fit, median s | apply, median s |"
    )
    print("|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for _, column, name, shares in sorted(ranked, reverse=True):
        cells = []
        for score in ("log_loss", "brier"):
            low, high = interval(shares[score], datasets)
            cells.append(f"{shares[score].mean():.3f} [{low:.3f}, {high:.3f}]")
        failed = sum("error" in entry["methods"].get(name, {}) for entry in results)
        infinite = int(np.isinf(tables["log_loss"][:, column]).sum()) - failed
        numbers = [_mean(tables[s][:, column]) for s in ("ece", "class_ece")]
        cells += [f"{value:.4f}" for value in numbers] + [str(infinite), str(failed)]
        cells += [f"{_mean(extra[s][:, column]):.3f}" for s in ("accuracy", "kept")]
        cells += [f"{np.median(extra[s][:, column]):.4f}" for s in ("fit_s", "apply_s")]
        print(f"| {name} | " + " | ".join(cells) + " |")


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values[np.isfinite(values)])) if np.isfinite(values).any() else float("nan")


def _head_to_head(results: Results, names: list[str], ours: str, others: list[str]) -> None:
    datasets = np.array([entry["dataset"] for entry in results])
    print(f"\n{ours}: share of experiments with the lower loss, ratio of the log losses (median, worst and where)\n")
    print("| against | log loss | Brier | median ratio | worst ratio | worst on |")
    print("|---|---|---|--:|--:|---|")
    for other in others:
        cells = []
        for score in ("log_loss", "brier"):
            table = loss_table(results, [ours, other], score)
            share = wins(table[:, 0], table[:, 1:])
            low, high = interval(share, datasets)
            cells.append(f"{share.mean():.3f} [{low:.3f}, {high:.3f}]")
        table = loss_table(results, [ours, other], "log_loss")
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(np.isinf(table[:, 1]), 0.0, table[:, 0] / table[:, 1])
        worst = int(ratio.argmax())
        where = f"{results[worst]['dataset']}, {results[worst]['model']}"
        cells += [f"{np.median(ratio):.4f}", f"{ratio[worst]:.4f}", where]
        print(f"| {other} | " + " | ".join(cells) + " |")


def _harm(results: Results, names: list[str]) -> None:
    """How often a method is clearly worse than doing nothing."""
    print("\nlog loss against doing nothing: share of experiments more than 5 % worse, worst ratio\n")
    base = loss_table(results, ["uncalibrated"], "log_loss")[:, 0]
    for name in names:
        table = loss_table(results, [name], "log_loss")[:, 0]
        if name == "uncalibrated" or np.isnan(table).all():
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(np.isinf(base), 0.0, table / base)
        print(f"  {name:32} {float((ratio > 1.05).mean()):.3f}  {ratio.max():.3f}")


SAME_METHOD = [
    ("temperature", "TS"), ("ets", "ETS"), ("vector", "VS"), ("matrix", "MS"), ("structured-vector", "SVS"),
    ("structured-matrix", "SMS"), ("averaged-matrix", "SMS"),
]  # fmt: skip
"""Methods of ours and the same in probmetrics; `averaged-matrix` beside the best of them."""


def _fit_times(results: Results, names: list[str]) -> None:
    """Processor seconds of a fit: the medians over the experiments, and the median of their ratios."""
    pairs = [(ours, theirs) for ours, theirs in SAME_METHOD if ours in names and theirs in names]
    if not pairs:
        return
    print("\nprocessor seconds of a fit, median over the experiments\n")
    print("| method | seconds | in probmetrics | seconds there | median ratio | faster in |")
    print("|---|--:|---|--:|--:|--:|")
    for ours, theirs in pairs:
        table = loss_table(results, [ours, theirs], "fit_s")
        table = table[np.isfinite(table).all(axis=1)]
        ratio, (own, other) = table[:, 1] / np.maximum(table[:, 0], 1e-9), np.median(table, axis=0)
        share = float((table[:, 0] < table[:, 1]).mean())
        print(f"| {ours} | {own:.4f} | {theirs} | {other:.4f} | {np.median(ratio):.1f} | {100 * share:.0f} % |")


def print_report(results: Results, names: list[str], pool: list[str], ours: list[str]) -> None:
    """Leaderboard, head-to-head of our averaged methods, and the harm done, for two and for several classes."""
    for title, chosen in (
        ("Several classes", [r for r in results if r["classes"] > 2]),
        ("Two classes", [r for r in results if r["classes"] == 2]),
    ):
        if not chosen:
            continue
        present = [n for n in names if any(n in r["methods"] for r in chosen)]
        against = [n for n in present if n in pool]
        print(f"\n## {title}: {len(chosen)} experiments on {len({r['dataset'] for r in chosen})} data sets")
        print(f"pool: {', '.join(against)}\n")
        _leaderboard(chosen, present, pool)
        for name in ours:
            if name in present:
                _head_to_head(chosen, present, name, against)
        _fit_times(chosen, present)
        if "uncalibrated" in present:
            _harm(chosen, present)
        for entry in chosen:
            for name, found in entry["methods"].items():
                if "error" in found:
                    print(f"failed: {name} on {entry['dataset']}, {entry['model']}: {found['error']}")
