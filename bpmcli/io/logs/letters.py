"""The confidence of an answer letter, from the log-probabilities of the tokens that were generated."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Any

from bpmcli.io.logs.log_reader import SkipSample, finite_number, log_odds_among

DECORATION = " \t\r\n()[]*.:,\"'`"


def letter_of(token: Any) -> str:
    """The letter that a token consists of, apart from spaces and punctuation; "" if it is anything else."""
    text = str(token).strip(DECORATION).upper()
    return text if len(text) == 1 and text.isalpha() else ""


def answer_log_odds(content: Any, letters: Sequence[str], answer: str = "") -> tuple[str, float]:
    """The answer's letter, and its log-odds among the letters that are listed in `top_logprobs`.

    The answer is the last token that is one of the letters, or the last that is `answer` if it is known.
    """
    if not isinstance(content, list) or not content:
        raise SkipSample("no log-probabilities")
    letters = list(letters)
    wanted = [answer] if answer in letters else letters
    token = next((t for t in reversed(content) if letter_of(t.get("token")) in wanted), None)
    if token is None:
        raise SkipSample("no token that is an answer letter")
    chosen = letter_of(token["token"])
    found: dict[str, float] = {}
    listed = token.get("top_logprobs") or []
    if chosen not in [letter_of(other.get("token")) for other in listed]:
        listed = [*listed, token]
    for other in listed:
        letter, x = letter_of(other.get("token")), finite_number(other["logprob"], "a log-probability")
        if letter in letters:  # "B" and " B" are one answer
            before = found.get(letter)
            found[letter] = x if before is None else max(x, before) + log(1 + exp(-abs(x - before)))
    if len(found) < 2:
        raise SkipSample("the other answer letters are not among top_logprobs")
    return chosen, log_odds_among(chosen, found)
