"""The scores of all classes as they were read, and their log-probabilities by chunks of rows or blocks of classes.

Nothing as large as the scores themselves is computed at once, so the memory needed beside the scores does not grow with
their number. Parts of a file stay apart, because joining them would copy them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bpmcli.core.data.log_odds import CHUNK_VALUES, reduce_logits, reduce_probs
from bpmcli.core.data.rows import row_hashes
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats, Ints
from bpmcli.record import Record

if TYPE_CHECKING:
    import numpy.typing as npt

BLOCK_VALUES = 1 << 22
"""The number of log-probabilities that are held at once for a block of classes: 32 MB."""

LEAST_LOG = -1e30
"""Below this, a log-probability stands for a probability of 0, because its logit masks a class (−3.4e38 in float32)."""


class ClassScores(Record):
    """N×K logits or probabilities in parts of consecutive rows. A part with fewer columns lacks the last classes."""

    parts: Sequence[npt.NDArray[Any]]
    from_probs: bool
    names: tuple[str, ...] | None = None
    """The names of the classes, if the file has them."""

    def name(self, k: int) -> str:
        """The name of a class; its number if it has none."""
        return str(k) if self.names is None else self.names[k]

    @property
    def n(self) -> int:
        """The number of rows."""
        return sum(len(part) for part in self.parts)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return max(int(part.shape[1]) for part in self.parts)

    def take(self, index: npt.NDArray[Any]) -> ClassScores:
        """The chosen rows, in the order of the index (positions, or a mask)."""
        index = np.flatnonzero(index) if index.dtype == bool else index
        if len(self.parts) == 1:
            return ClassScores([self.parts[0][index]], self.from_probs, self.names)
        absent = 0.0 if self.from_probs else -np.inf
        out = np.full((index.size, self.n_classes), absent, dtype=np.result_type(*self.parts, np.float32))
        for start, part in zip(self._starts, self.parts, strict=True):
            inside = np.flatnonzero((index >= start) & (index < start + len(part)))
            out[inside, : part.shape[1]] = part[index[inside] - start]
        return ClassScores([out], self.from_probs, self.names)

    def joined(self, others: Sequence[ClassScores | None]) -> ClassScores | None:
        """These rows followed by the rows of `others`, without copying; None if some of them have no such scores."""
        there = [self, *(other for other in others if other is not None and other.from_probs == self.from_probs)]
        if len(there) <= len(others):
            return None
        return ClassScores([part for each in there for part in each.parts], self.from_probs, self.names)

    def chunks(self, values: int = CHUNK_VALUES) -> Iterator[tuple[slice, Floats]]:
        """Log-probabilities of consecutive rows, about `values` of them at a time; -inf for an absent class."""
        k = self.n_classes
        step = max(1, values // k)
        for start, part in zip(self._starts, self.parts, strict=True):
            for first in range(0, len(part), step):
                found = self._logs(part[first : first + step])
                for norm in _log_norms(found):
                    _normalise(found, norm[:, None])
                if found.shape[1] < k:
                    found = np.pad(found, ((0, 0), (0, k - found.shape[1])), constant_values=-np.inf)
                yield slice(start + first, start + first + len(found)), found

    def classes(self) -> Iterator[tuple[int, Floats]]:
        """The number of each class, and the log-probability of that class in every row."""
        width = max(1, BLOCK_VALUES // max(self.n, 1))
        for first in range(0, self.n_classes, width):
            last = min(first + width, self.n_classes)
            block = np.full((last - first, self.n), -np.inf)
            for start, part in zip(self._starts, self.parts, strict=True):
                known = self._logs(part[:, first:last]).T
                block[: len(known), start : start + len(part)] = known
            for norm in self._log_norms:
                _normalise(block, norm)
            yield from enumerate(block, first)

    def log_odds(self) -> Iterator[tuple[int, Floats]]:
        """The number of each class, and log p_k − log(1 − p_k) in every row, exact however close p_k is to 1."""
        predictions, top = self._predicted
        for k, log_p in self.classes():
            with np.errstate(divide="ignore"):
                x = log_p - np.log1p(-np.exp(np.minimum(log_p, -1e-300)))
            x[predictions == k] = top[predictions == k]
            yield k, np.clip(x, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)

    def hashes(self) -> np.ndarray:
        """A 64-bit hash of every row's distribution."""
        return np.concatenate([row_hashes(logs) for _, logs in self.chunks(BLOCK_VALUES)])

    @cached_property
    def _starts(self) -> Ints:
        return np.cumsum([0, *(len(part) for part in self.parts[:-1])])

    @cached_property
    def _predicted(self) -> tuple[Ints, Floats]:
        """The most probable class of every row, and its log-odds."""
        reduce = reduce_probs if self.from_probs else reduce_logits
        found = [reduce(part) for part in self.parts]
        return np.concatenate([r.predictions for r in found]), np.concatenate([r.log_odds for r in found])

    @cached_property
    def _log_norms(self) -> tuple[Floats, Floats]:
        """What is subtracted from the logits of every row, one after the other, to make them log-probabilities."""
        step = max(1, CHUNK_VALUES // self.n_classes)
        parts = [_log_norms(self._logs(p[i : i + step])) for p in self.parts for i in range(0, len(p), step)]
        tops, rests = zip(*parts, strict=True)
        return np.concatenate(tops), np.concatenate(rests)

    def _logs(self, scores: npt.NDArray[Any]) -> Floats:
        """Logits in float64; the logarithms of probabilities."""
        found = np.array(scores, dtype=np.float64)
        if self.from_probs:
            with np.errstate(divide="ignore"):
                np.log(found, out=found)
        return found


def _normalise(logits: Floats, norm: Floats) -> None:
    """Subtracts a norm in place. Masked classes get a probability of 0."""
    with np.errstate(over="ignore"):
        logits -= norm
    if logits.min(initial=0.0) < LEAST_LOG:
        logits[logits < LEAST_LOG] = -np.inf


def _log_norms(logits: Floats) -> tuple[Floats, Floats]:
    """The largest logit z_max of every row, and log Σ e^(z − z_max). Their sum would lose digits if z_max is large."""
    top = logits.max(axis=1)
    with np.errstate(over="ignore"):
        e = np.exp(logits - top[:, None])
    rest: Floats = np.log(np.einsum("ij->i", e))
    return top, rest
