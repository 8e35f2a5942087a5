"""A scenario makes a case from random numbers. It is one function; its weight is how often it comes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fuzz.case import Case

Scenario = Callable[[Random], Case]
SCENARIOS: dict[str, tuple[Scenario, int]] = {}


def scenario(weight: int) -> Callable[[Scenario], Scenario]:
    def register(function: Scenario) -> Scenario:
        SCENARIOS[function.__name__.replace("_", "-")] = function, weight
        return function

    return register
