"""The only layer that knows file formats."""

from bpmcli.io.readers import read_rows

__all__ = ["read_rows"]
