"""From a seed and a number to a case."""

from __future__ import annotations

from random import Random

from fuzz import scenarios_documents, scenarios_inputs, scenarios_logs, scenarios_settings  # noqa: F401  (they register themselves)
from fuzz.case import Case
from fuzz.scenario import SCENARIOS


def make_case(seed: int, index: int, only: str | None = None) -> Case:
    """The same case for the same numbers."""
    rng = Random(f"{seed}:{index}")
    name = drawn_scenario(rng)
    case = SCENARIOS[only or name][0](rng)
    case.name = only or name
    return case


def drawn_scenario(rng: Random) -> str:
    """The name of a scenario, by weight."""
    names = list(SCENARIOS)
    return rng.choices(names, [SCENARIOS[n][1] for n in names])[0]


__all__ = ["SCENARIOS", "drawn_scenario", "make_case"]
