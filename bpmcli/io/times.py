"""Dates and times of arrow columns as text. Values outside of the calendar or of the 24 hours of a day are refused."""

from __future__ import annotations

from typing import Any

from bpmcli.errors import DataError


def iso_times(column: Any) -> list[str | None]:
    """Dates as `2024-05-01`, times as `2024-05-01 12:30:00`, and times with a zone in UTC: `2024-05-01 10:30:00Z`.

    Midnight is written in full, because other programs do not read a column in which some times are bare dates.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    if zoned:
        column = column.cast(pa.timestamp(kind.unit))  # whatever the zone is called
    check_days(column)
    text = _text(column)
    text = pc.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1")
    text = pc.replace_substring_regex(text, r"\.$", "")
    if zoned:
        text = pc.binary_join_element_wise(text, "Z", "")
    return [None if value is None else str(value) for value in text.to_pylist()]


def clock_times(column: Any) -> list[str | None]:
    """Times of the day, such as `12:30:00`."""
    return [None if value is None else str(value) for value in _text(column).to_pylist()]


def check_days(column: Any) -> None:
    """Refuse dates in milliseconds that are not whole days: other types would move them to another day."""
    import pyarrow as pa

    if pa.types.is_date64(column.type):  # nested ones were checked when they were read
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise DataError(f"holds a date that is not a whole day ({' '.join(str(error).split())[:100]})") from None


def _text(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    text = column.cast(pa.string())
    if pc.any(pc.starts_with(text, "<")).as_py():  # pyarrow's words for a value that it cannot express
        raise DataError("holds a time beyond the calendar")
    return text
