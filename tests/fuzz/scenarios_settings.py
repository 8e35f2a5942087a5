"""Options that come from a configuration file or from the environment, and small files that lie beside the input."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from fuzz import documents
from fuzz.arguments import commands, modest, value_for
from fuzz.case import Case, Step
from fuzz.damage import damaged
from fuzz.formats import random_file
from fuzz.scenario import scenario
from fuzz.tables import random_table

VALUES = ["true", "false", "1", "-1", "0.5", "nan", "inf", "1e999", "9" * 40, "[]", "[1, 2]", '["ece", "ks"]', "{}", "{ece = 0.1}", "{a = {b = 1}}", '""', '"x"', '"\\u001b[31m"', '"ece=0.1"', "2024-01-01", "12:30:00", "[[[]]]", "0x10", '"é🎉"', "[true, \"x\"]"]  # fmt: skip
BROKEN = ["x = ", "[", "= 1", "a = 1\na = 2", "[metrics]\n[metrics]", "x = \"", "x = [" + "[" * 3000, "\x00", "a." * 2000 + "b = 1", "x = 1_"]  # fmt: skip


def _settable() -> list[tuple[tuple[str, ...], Any]]:
    """Every command with each option that takes a value or is a flag."""
    return [(path, p) for path, command in commands().items() for p in command.params if p.opts[0].startswith("--")]


def _value(rng: Random, parameter: Any) -> str:
    if rng.random() < 0.4:
        return rng.choice(VALUES)
    if getattr(parameter, "is_flag", False):
        return rng.choice(["true", "false"])
    return json.dumps(value_for(rng, parameter).encode("utf-8", "replace").decode())


def _toml(rng: Random, name: str) -> bytes:
    """Keys at the top and in tables of commands; some unknown, some broken."""
    top, tables = [], []
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        path, parameter = rng.choice(_settable())
        key = parameter.opts[0].removeprefix("--")
        key = rng.choice([key, key, key, key.replace("-", "_"), "nope", '""', '"a\\u001bb"', "inputs"])
        line = f"{key} = {_value(rng, parameter)}"
        if rng.random() < 0.5:
            top.append(line)
        else:
            tables.append(f"[{'.'.join(path)}]\n{line}")
    lines = [*top, *dict.fromkeys(tables)]
    if rng.random() < 0.1:
        lines.append(rng.choice(BROKEN))
    if name == "pyproject.toml":
        head = rng.choice(["[tool.bpmcli]", "[tool.bpmcli]", "tool.bpmcli = 3", "tool = 1 # tool.bpmcli"])
        lines = [head, *(line.replace("[", "[tool.bpmcli.", 1) if line.startswith("[") else line for line in lines)]
    content = "\n".join([*lines, ""]).encode("utf-8", "surrogatepass")
    return damaged(rng, content) if rng.random() < 0.1 else content


@scenario(6)
def configured(rng: Random) -> Case:
    """Any command under a configuration file, under BPMCLI_ variables, or under both."""
    suffix, content = random_file(rng, random_table(rng, tame=True), plain=True)
    files = {"a" + suffix: content, "p.json": json.dumps(documents.parameters(rng)).encode()}
    environment = {}
    if rng.random() < 0.75:
        name = rng.choice(["bpmcli.toml", "bpmcli.toml", "pyproject.toml"])
        files[name] = _toml(rng, name)
    if rng.random() < 0.4:
        path, parameter = rng.choice(_settable())
        key = "BPMCLI_" + rng.choice(["", "_".join(path).upper() + "_"])
        key += parameter.opts[0].removeprefix("--").upper().replace("-", "_")
        value = value_for(rng, parameter)
        environment[rng.choice([key, key, key, "BPMCLI_NOPE", "BPMCLI_CONFIG"])] = value.replace("\0", "")
    argv = rng.choice([["metrics", "a" + suffix], ["fit", "a" + suffix, "-o", "q.json"], ["apply", "p.json", "a" + suffix, "-o", "o.csv"], ["config"], ["config", "-f", "json"], ["metrics"], ["compare", "calibrators", "a" + suffix]])  # fmt: skip
    command = tuple(argv[:2]) if argv[0] == "compare" else (argv[0],)
    return Case("", [Step([*argv, *modest(command)], None, False, environment)], files, damaged=True)


@scenario(3)
def beside(rng: Random) -> Case:
    """Labels in a file of their own, and lists of class names beside the scores."""
    table = random_table(rng, tame=rng.random() < 0.7)
    suffix, content = random_file(rng, table, plain=True)
    other, labels = random_file(rng, random_table(rng, tame=rng.random() < 0.7), plain=True)
    names = json.dumps(rng.choice([["cat", "dog"], ["a", "b", "c"], ["0", "1", "2", "3"], {}, [[]], 3, ["\x1b[31m"] * 3]))  # fmt: skip
    files = {
        "a" + suffix: content,
        "y" + other: damaged(rng, labels) if rng.random() < 0.2 else labels,
        rng.choice(["a.classes.txt", "a.classes.json", "classes.json", "class_names.txt"]): names.encode(),
    }
    argv = ["metrics", "a" + suffix, "-m", "ece", *table.options]
    argv += ["--label", "y" + other] if rng.random() < 0.8 else []
    argv += ["--id", rng.choice(["row", "site", "label", "nope"])] if rng.random() < 0.5 else []
    return Case("", [Step(argv)], files, damaged=True)


@scenario(2)
def outcomes_for_ci(rng: Random) -> Case:
    """Gates whose outcome goes to a junit file, to GitHub's step summary, or into a report."""
    suffix, content = random_file(rng, random_table(rng, tame=rng.random() < 0.7), plain=True)
    name = rng.choice(["a", "é🎉", "\x1b[31mred", "a]]>b", "a&<b", "a|b", "::error::x"]) + suffix
    files = {name: content}
    environment = {}
    argv = ["metrics", name, "--fail-above", rng.choice(["ece=0.01", "ece=1", "ks=0"]), "-m", "ece,ks"]
    argv += ["--by", "site"] if rng.random() < 0.2 else []
    argv += ["--junit", rng.choice(["j.xml", name, "nowhere/j.xml", "/dev/full", ""])] if rng.random() < 0.6 else []
    argv += ["-f", rng.choice(["json", "csv", "markdown", "jsonl"])] if rng.random() < 0.4 else []
    if rng.random() < 0.6:
        environment = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_STEP_SUMMARY": rng.choice(["summary.md", "/dev/full", "", "."]),
        }
    if rng.random() < 0.3:
        argv = ["report", name, "-o", "page.html", "--resamples", "20", *rng.choice([[], ["--by", "site"]])]
    return Case("", [Step(argv, None, False, environment)], files, damaged=True)
