"""Checks that several options share. Each returns the value, or raises a usage error that names the limit."""

from __future__ import annotations

from math import isfinite

from bpmcli.errors import UsageError

HIGHEST_LEVEL = 0.9999
"""A few thousand resamples cannot resolve higher levels."""


def whole(option: str, value: int, least: int, most: int | None = None, hint: str | None = None) -> int:
    """A whole number within limits."""
    if most is None and value < least:
        raise UsageError(f"{option} must be {least} or more, got {value}", hint)
    if most is not None and not least <= value <= most:
        raise UsageError(f"{option} must be between {least} and {most}, got {value}", hint)
    return value


def number(option: str, value: float, least: float, most: float) -> float:
    """A finite number within limits."""
    if not (isfinite(value) and least <= value <= most):
        raise UsageError(f"{option} must be between {least:g} and {most:g}, got {value:g}")
    return value


def share(option: str, value: float) -> float:
    """A number strictly between 0 and 1."""
    if not 0 < value < 1:
        raise UsageError(f"{option} must be above 0 and below 1, got {value:g}")
    return value


def level(option: str, value: float) -> float:
    """A confidence level that resampling can reach."""
    if not 0 < value <= HIGHEST_LEVEL:
        raise UsageError(f"{option} must be above 0 and at most {HIGHEST_LEVEL}, got {value!r}", f"{option} 0.95")
    return value


def one_of(option: str, value: str, allowed: tuple[str, ...]) -> str:
    """One of a few words."""
    if value not in allowed:
        words = " or ".join(allowed) if len(allowed) < 3 else ", ".join(allowed[:-1]) + " or " + allowed[-1]
        raise UsageError(f"{option} must be {words}, got '{value}'")
    return value


def digits(option: str, text: str, most: int) -> int:
    """A positive whole number that was given as text."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or not 1 <= int(text) <= most:
        raise UsageError(f"{option} must be a whole number between 1 and {most}, got '{text}'")
    return int(text)
