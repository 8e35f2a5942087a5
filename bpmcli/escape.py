"""Makes text from files, names and options safe to show: no control character reaches a terminal, table or picture."""

from __future__ import annotations

import re

_CONTROL = (
    "[\x00-\x1f\x7f-\x9f"  # terminal commands, new lines, tabs
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # invisible characters, and those that reverse text
    "\ud800-\udfff]"  # bytes of names that are not UTF-8
)
_MARKDOWN = r"[\\|<`\[\]*]"


def spelled_out(text: str) -> str:
    """The text on one line, control characters spelled out: a new line becomes \\n, an escape character \\x1b."""
    return re.sub(_CONTROL, _spelled, text)


def _spelled(found: re.Match[str]) -> str:
    character = found[0]
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def markdown(text: str) -> str:
    """The same text, in which also the special characters of markdown are escaped."""
    return re.sub(_MARKDOWN, r"\\\g<0>", spelled_out(text))
