"""Reads and writes files: the only room that knows file formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bpmcli.io.readers import read_rows

__all__ = ["read_rows"]


def __getattr__(name: str) -> Any:
    """Importing the package takes no time: what needs numpy is imported when it is used."""
    if name == "read_rows":
        from bpmcli.io.readers import read_rows

        return read_rows
    raise AttributeError(f"module 'bpmcli.io' has no attribute '{name}'")
