"""Rows divided at random into folds of the same size."""

from __future__ import annotations

import numpy as np

from bpmcli.core.data.rows import MULTIPLIER, Rows, row_hashes
from bpmcli.core.data.sample import Ints
from bpmcli.errors import DataError


def fold_numbers(hits: np.ndarray, folds: int, rng: np.random.Generator) -> Ints:
    """A fold for each row: shuffled (files may be sorted), with correct and wrong rows spread evenly."""
    if hits.size < 2 * folds:
        raise DataError(f"{hits.size} rows are too few for {folds} folds", "use fewer --folds or more rows")
    order = rng.permutation(hits.size)
    order = order[np.argsort(hits[order], kind="stable")]
    numbers = np.empty(hits.size, dtype=np.int64)
    numbers[order] = np.arange(hits.size) % folds
    return numbers


def row_folds(rows: Rows, folds: int, rng: np.random.Generator, stratified: bool = True) -> Ints:
    """A fold for each row. All labels of an item of a multi-label file get the same fold.

    `stratified` spreads correct and wrong rows evenly, or items with few and many true labels.
    """
    hits = rows.hits if stratified else np.zeros(rows.n, dtype=bool)
    if not rows.label_names or rows.clusters is None:
        return fold_numbers(hits, folds, rng)
    items, place = np.unique(rows.clusters.codes, return_inverse=True)
    # In an order that depends on the content of the items alone; items of the same content are interchangeable.
    ranks = np.empty(items.size, dtype=np.int64)
    ranks[np.argsort(_item_hashes(rows, place, items.size), kind="stable")] = np.arange(items.size)
    true = np.bincount(ranks[place], hits, items.size)
    return fold_numbers(true, folds, rng)[ranks[place]]


def _item_hashes(rows: Rows, place: Ints, items: int) -> np.ndarray:
    """A hash of what an item's rows hold, whatever their order."""
    labels = np.zeros(rows.n) if rows.groups is None else rows.groups.codes.astype(np.float64)
    weights = np.ones(rows.n) if rows.weights is None else rows.weights
    hashes = row_hashes(np.stack([rows.log_odds, rows.hits.astype(np.float64), labels, weights], axis=1)) * MULTIPLIER
    found = np.zeros(items, dtype=np.uint64)
    np.add.at(found, place, hashes)
    return found
