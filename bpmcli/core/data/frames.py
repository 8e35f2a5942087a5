"""DataFrames in: columns of a pandas DataFrame as a sample. pandas itself is never imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bpmcli.core.data.sample import Sample, sample_from_confidences
from bpmcli.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


def sample_from_frame(
    frame: pd.DataFrame, confidence: str = "confidence", hit: str = "hit", weight: str | None = None
) -> Sample:
    """A sample from columns of a DataFrame: confidences in [0, 1], whether each row is correct, and weights.

    The column `hit` holds 0 and 1, or booleans. Raises DataError if a column does not exist or has missing values.

    >>> import pandas as pd
    >>> from bpmcli import sample_from_frame
    >>> frame = pd.DataFrame({"score": [0.9, 0.8, 0.6], "correct": [True, False, True]})
    >>> sample_from_frame(frame, confidence="score", hit="correct").n
    3
    """
    columns = {name: _column(frame, name) for name in (confidence, hit, weight) if name is not None}
    return sample_from_confidences(columns[confidence], columns[hit], None if weight is None else columns[weight])


def _column(frame: pd.DataFrame, name: str) -> np.ndarray[Any, Any]:
    if name not in frame.columns:
        known = ", ".join(str(column) for column in frame.columns)
        raise DataError(f"the DataFrame has no column '{name}'", f"its columns are {known}")
    missing = np.flatnonzero(frame[name].isna().to_numpy())
    if missing.size:
        raise DataError(
            f"column '{name}' has missing values (first in row {missing[0] + 1})", "frame.dropna() drops them"
        )
    values: np.ndarray[Any, Any] = frame[name].to_numpy()
    return values.astype(np.float64) if values.dtype == object else values
