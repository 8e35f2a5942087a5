"""What every writer offers: columns that the format cannot hold are refused by name before they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from bpmcli.errors import DataError
from bpmcli.io.columns import Lists
from bpmcli.io.formats.reader import Reader

LONGEST_SHOWN = 200
"""Characters of a name that a message shows."""


class Writer:
    """Writes batches of columns; `close` completes the file."""

    label: ClassVar[str] = ""
    instead: ClassVar[str] = "npz"
    """A format to suggest for columns that this one cannot hold."""

    to_stdout: ClassVar[bool] = False
    """Whether the format can be written to standard output."""

    keeps_text: ClassVar[bool] = False
    """Whether numbers are stored as text. From one such format to another they are copied as text: 1.50 stays 1.50."""

    fixed_columns: ClassVar[bool] = True
    """Whether all batches must have the same columns."""

    def __init__(self, path: str, metadata: Mapping[str, str], origin: Reader | None = None) -> None:
        self.path, self.metadata, self.origin = path, metadata, origin
        self.rows = 0
        self.names: list[str] = []
        self.carried: list[str] = []
        self.keyed: str | None = None
        """The column that holds the scores as an object per row, if there is one."""

    def write(self, columns: Mapping[str, Any]) -> None:
        """Write a batch. All columns are converted and checked before the first byte of the batch is written."""
        prepared = {name: self._prepared(name, values) for name, values in self.spread(columns).items()}
        if not self.names:
            self.names = list(prepared)
        elif not self.fixed_columns:
            self.names = list(dict.fromkeys([*self.names, *prepared]))
        elif list(prepared) != self.names:
            raise DataError(
                "the columns change within the file", f"write {self.instead} instead: -o out.{self.instead}"
            )
        lengths = {len(values) for values in prepared.values()}
        if len(lengths) != 1:
            raise DataError(f"columns of different lengths cannot be written: {sorted(lengths)}")
        self.put(prepared)
        self.rows += lengths.pop()

    def _prepared(self, name: str, values: Any) -> Any:
        try:
            return self.prepare(name, values)
        except DataError as error:
            raise self.cannot_hold(name, error.message) from None
        except UnicodeEncodeError:
            raise self.cannot_hold(name, "holds text that is not valid Unicode") from None
        except (ValueError, TypeError, OverflowError, NotImplementedError, SystemError) as error:
            text = " ".join(str(error).split())[:120] or type(error).__name__
            raise self.cannot_hold(name, f"holds a value ({text})") from None

    def cannot_hold(self, name: str, what: str) -> DataError:
        """The error for a column that the format cannot hold."""
        hint = f"write {self.instead} instead (-o out.{self.instead}), or leave the column out"
        shown = name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}…"
        return DataError(f"'{shown}' {what}, which {self.label} cannot hold", hint)

    def spread(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of the format: some formats have one column per class."""
        return dict(columns)

    def prepare(self, name: str, values: Any) -> Any:
        """A column in the form that `put` takes; raises if the format cannot hold it."""
        raise NotImplementedError

    def put(self, columns: Mapping[str, Any]) -> None:
        """Write prepared columns."""
        raise NotImplementedError

    def carry(self, origin: Reader, names: Sequence[str]) -> bool:
        """Copy arrays that belong to the file and not to its rows. False if the format cannot hold them."""
        return False

    def close(self) -> None:
        """Complete the file."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Close what is open after a failure; the file is thrown away."""
        self.close()


def column_of_matrix(name: str, k: int) -> str:
    """The name of a column of a matrix in a table: `prob_0` for the first one of `probs`."""
    return f"{name.removesuffix('s')}_{k}"


def one_per_row(values: Any) -> Any:
    """An (N, 1) array as N values: to all readers it is a column, so it keeps its name and its role."""
    return values[:, 0] if isinstance(values, np.ndarray) and values.shape[1:] == (1,) else values


def spread_matrices(columns: Mapping[str, Any], lists: bool = False, keyed: str | None = None) -> dict[str, Any]:
    """Matrices as one column per class: `probs` becomes prob_0, prob_1, …; with `lists`, lists of one length too.

    Objects in the column `keyed` become one column per key: `probs` becomes probs.cat, probs.dog, …
    """
    out: dict[str, Any] = {}
    origin: dict[str, str] = {}

    def add(name: str, values: Any, source: str) -> None:
        if name in out:
            both = " and ".join(sorted({f"'{origin[name]}'", f"'{source}'"}))
            raise DataError(
                f"{both} would both be written as column '{name}'", "rename one of them, or write npz: -o out.npz"
            )
        out[name], origin[name] = values, source

    for name, values in columns.items():
        values = one_per_row(values)
        if lists and isinstance(values, Lists):
            if values.ragged:
                raise DataError(
                    f"'{name}' holds lists of different lengths, which a table of text cannot hold",
                    "write jsonl or parquet instead: -o out.jsonl",
                )
            values = values.matrix(np.nan)
        if name == keyed:
            import pyarrow.compute as pc

            for key in values.type:
                add(f"{name}.{key.name}", pc.struct_field(values, [key.name]), name)
        elif isinstance(values, np.ndarray) and values.ndim == 2:
            if not values.shape[1]:
                raise DataError(
                    f"'{name}' has no columns, which a table cannot hold", "leave it out, or write npz: -o out.npz"
                )
            for k in range(values.shape[1]):
                add(column_of_matrix(name, k), values[:, k], name)
        else:
            add(name, values, name)
    return out
