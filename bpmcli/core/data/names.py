"""Names that people type: spelled with _ or in capitals, shortened, or slightly wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bpmcli.errors import UsageError


def known_name(given: str, known: Iterable[str], what: str) -> str:
    """The known name that was meant; `what` says what it names in the error.

    Capitals and underscores do not matter, and an unambiguous beginning is enough: `BPM_averaged` is bpm-averaged,
    `temp` is temperature. Otherwise a usage error suggests the nearest name and lists the others.
    """
    names = list(known)
    if given in names:
        return given
    plain = given.strip().lower().replace("_", "-")
    if plain in names:
        return plain
    beginnings = [name for name in names if len(plain) > 1 and name.startswith(plain)]
    if len(beginnings) == 1:
        return beginnings[0]
    near = nearest(plain, names)
    suggestion = f"did you mean {near}? " if near else ""
    raise UsageError(f"unknown {what} '{given}'", f"{suggestion}choose from {', '.join(names)}")


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like a wrong one, if any does."""
    from difflib import get_close_matches

    found = get_close_matches(given, list(known), n=1)
    return found[0] if found else None


def few(names: Sequence[str]) -> str:
    """The first three names, and how many more there are."""
    shown = "; ".join(names[:3]) if any(", " in name for name in names) else ", ".join(names[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")
