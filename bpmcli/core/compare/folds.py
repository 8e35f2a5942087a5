"""Rows divided at random into folds of the same size."""

from __future__ import annotations

import numpy as np

from bpmcli.core.data.rows import MULTIPLIER, Rows, row_hashes
from bpmcli.core.data.sample import Ints
from bpmcli.errors import DataError


def fold_numbers(strata: np.ndarray, folds: int, rng: np.random.Generator, what: str = "rows") -> Ints:
    """A fold for each row (or other unit: `what`). The units of each stratum are spread evenly over the folds.

    The units are shuffled first, because files may be sorted.
    """
    if strata.size < 2 * folds:
        raise DataError(f"{strata.size} {what} are too few for {folds} folds", f"use fewer --folds or more {what}")
    order = rng.permutation(strata.size)
    order = order[np.argsort(strata[order], kind="stable")]
    numbers = np.empty(strata.size, dtype=np.int64)
    numbers[order] = np.arange(strata.size) % folds
    return numbers


def row_folds(rows: Rows, folds: int, rng: np.random.Generator, stratified: bool = True) -> Ints:
    """A fold for each row. All labels of an item of a multi-label file get the same fold.

    `stratified` spreads correct and wrong rows evenly, or items with few and many true labels.
    """
    hits = rows.hits if stratified else np.zeros(rows.n, dtype=bool)
    if not rows.label_names or rows.clusters is None:
        return fold_numbers(hits, folds, rng)
    items, place = np.unique(rows.clusters.codes, return_inverse=True)
    # Items are ordered by their content, so their order in the file does not matter.
    ranks = np.empty(items.size, dtype=np.int64)
    ranks[np.argsort(_item_hashes(rows, place, items.size), kind="stable")] = np.arange(items.size)
    true = np.bincount(ranks[place], hits, items.size)
    return fold_numbers(true, folds, rng, "items")[ranks[place]]


def _item_hashes(rows: Rows, place: Ints, items: int) -> np.ndarray:
    """A hash of the content of each item, which does not depend on the order of its rows."""
    labels = np.zeros(rows.n) if rows.groups is None else rows.groups.places().astype(np.float64)
    weights = np.ones(rows.n) if rows.weights is None else rows.weights
    hashes = row_hashes(np.stack([rows.log_odds, rows.hits.astype(np.float64), labels, weights], axis=1)) * MULTIPLIER
    found = np.zeros(items, dtype=np.uint64)
    np.add.at(found, place, hashes)
    return found
