"""Inputs of every format: unusual, broken, badly named, many, and greedy ones; and options of every kind."""

from __future__ import annotations

import json
import os
from random import Random

from fuzz import documents
from fuzz.arguments import commands, modest, random_options
from fuzz.case import Case, Step
from fuzz.damage import damaged
from fuzz.format_arrow import parquet
from fuzz.format_numpy import lying_npz, npy_scores
from fuzz.format_text import greedy_text
from fuzz.formats import OUTPUT_SUFFIXES, random_file, text_file
from fuzz.running import BLOCK, LINK
from fuzz.scenario import scenario
from fuzz.tables import Table, random_table

READING = [("metrics",), ("metrics",), ("fit",), ("summarize",), ("compare", "calibrators"), ("compare", "metrics")]


def _reading(rng: Random, table: Table | None, names: list[str]) -> list[str]:
    """A command that reads files."""
    command = rng.choice(READING)
    quick = modest(command) if command == ("compare", "calibrators") else []
    argv = [*command, *names, *quick, *(table.options if table else [])]
    if command in (("fit",), ("compare", "calibrators")):
        argv += ["--method", rng.choice(documents.methods())]
    if command == ("fit",):
        argv += ["-o", "params.json"]
    if command == ("summarize",):
        argv += ["-o", "cells.parquet"]
    if command == ("metrics",):
        argv += ["-m", rng.choice(["ece", "ks", "tce", "tce-bpm", "all", "ece-debiased"])] if rng.random() < 0.7 else []
    if table and table.group and command != ("compare", "calibrators") and rng.random() < 0.3:
        argv += ["--by", table.group] if command != ("compare", "metrics") else []
    if rng.random() < 0.2:
        argv += ["--skip-missing"]
    if rng.random() < 0.5:
        argv += ["-f", rng.choice(["json", "csv", "markdown", "table"])]
    return argv


@scenario(24)
def rows(rng: Random) -> Case:
    """Unusual values and types in a valid file."""
    table = random_table(rng)
    suffix, content = random_file(rng, table)
    name = "a" + suffix
    return Case("", [Step(_reading(rng, table, [name]))], {name: content})


@scenario(24)
def applied(rng: Random) -> Case:
    """Calibrate any file into any format: nothing but scores may change."""
    table = random_table(rng, tame=rng.random() < 0.5)
    suffix, content = random_file(rng, table)
    target = "o" + (suffix if rng.random() < 0.5 and suffix != ".npy" else rng.choice(OUTPUT_SUFFIXES))
    files = {"a" + suffix: content, "p.json": json.dumps(documents.parameters(rng)).encode()}
    options = [o for o in table.options if o not in ("--weight", "weight")]
    argv = ["apply", "p.json", "a" + suffix, "-o", target, *options]
    if rng.random() < 0.2:
        argv += rng.sample(["--skip-missing", "--allow-argmax-change", "--force", "-q"], rng.choice([1, 2]))
    blocks = {BLOCK: rng.choice(["700", "1500", "2048"])} if rng.random() < 0.4 else {}
    return Case("", [Step(argv, environment=blocks)], files)


@scenario(8)
def fitted_and_applied(rng: Random) -> Case:
    """What fit writes, apply reads: every method on data that is hard for it."""
    table = random_table(rng, tame=rng.random() < 0.5)
    suffix, content = random_file(rng, table, plain=True)
    name = "a" + suffix
    argv = ["fit", name, "-o", "params.json", "--method", rng.choice(documents.methods()), *table.options]
    argv += rng.choice([[], [], [], ["--classwise"], ["--marginal"], ["--by", "site"], ["--interval", "0.9"]])
    argv += ["--min-group", "10"] if argv[-1] in ("--classwise", "--marginal", "site") else []
    return Case("", [Step(argv)], {name: content})


@scenario(14)
def broken_file(rng: Random) -> Case:
    """A file with faults in its bytes."""
    table = random_table(rng, tame=rng.random() < 0.7)
    suffix, content = random_file(rng, table, plain=rng.random() < 0.5)
    name = "a" + suffix
    files = {name: damaged(rng, content)}
    if rng.random() < 0.6:
        argv = _reading(rng, table, [name])
    else:
        files["p.json"] = json.dumps(documents.parameters(rng)).encode()
        argv = ["apply", "p.json", name, "-o", "o" + rng.choice(OUTPUT_SUFFIXES), *table.options]
    return Case("", [Step(argv)], files, damaged=True)


@scenario(14)
def options(rng: Random) -> Case:
    """Any command with any options, sensible or absurd."""
    table = random_table(rng, tame=True)
    suffix, content = random_file(rng, table, plain=True)
    name = "a" + suffix
    files = {name: content, "base.json": json.dumps(rng.choice(documents.baselines())).encode()}
    files["p.json"] = json.dumps(documents.parameters(rng)).encode()
    command = rng.choice(list(commands()))
    argv = [*command]
    if command == ("apply",):
        argv += ["p.json"]
    if command == ("simulate",):
        argv += [rng.choice(["D1", "D3", "D5"])] if rng.random() < 0.8 else []
    elif command not in (("compare", "curves"), ("compare", "samples")) and rng.random() < 0.9:
        argv += [name]
    argv += modest(command) if command != ("compare", "metrics") or name not in argv else []
    if command in (("compare", "curves"), ("compare", "samples")):
        argv += ["--truth", "D1"]
    argv += table.options + random_options(rng, command, rng.choice([1, 2, 2, 3, 5]))
    argv = [name if a == "a.npz" else a for a in argv]
    return Case("", [Step(argv)], files)


@scenario(5)
def standard_input(rng: Random) -> Case:
    """Rows from a pipe, sound or not."""
    table = random_table(rng, tame=rng.random() < 0.5)
    content = text_file(rng, table)
    broken = rng.random() < 0.3
    if broken:
        content = damaged(rng, content)
    files = {"p.json": json.dumps(documents.parameters(rng)).encode()}
    if rng.random() < 0.5:
        argv = _reading(rng, table, ["-"])
    else:
        argv = ["apply", "p.json", "-", *table.options]
        argv += ["-o", "o" + rng.choice(OUTPUT_SUFFIXES)] if rng.random() < 0.5 else []
    return Case("", [Step(argv, content)], files, damaged=True)


STEMS = ["é🎉", "\udcff", "a b", "a\nb", "\x1b[31mred", "-x", "'", '"', "a:b", "[x]", "*", "x" * 200, ".hidden", "a.b.c", "%s", "{}", "$HOME", "~", "a;b", "con", "\u202egpj", "<b>", "|x"]  # fmt: skip


@scenario(5)
def names(rng: Random) -> Case:
    """Files, folders and links whose names have a special meaning for shells or libraries."""
    files: dict[str, bytes] = {}
    used = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        suffix, content = random_file(rng, random_table(rng, tame=rng.random() < 0.8), plain=True)
        if rng.random() < 0.15:
            suffix = rng.choice([".txt", "", ".JSON", ".NPZ", ".pkl", ".pt", ".json", ".gz", ".csv.bz2"])
        name = rng.choice(["", "", "d/", "d/e/"]) + rng.choice(STEMS) + suffix
        files[name] = content
        used.append(rng.choice([name, name, "d", ".", "d/*", "./" + name]))
    if rng.random() < 0.15:
        files["link.csv"] = LINK + os.fsencode(
            rng.choice(["/dev/null", "nowhere", ".", used[0], "/dev/zero", "link.csv"])
        )
        used.append("link.csv")
    if rng.random() < 0.5:
        argv = ["metrics", "-m", "ece", *used]
        argv += rng.choice([[], ["-f", "json"], ["-f", "csv"], ["-f", "markdown"], ["--pool"]])
    else:
        files["p.json"] = json.dumps(documents.parameters(rng)).encode()
        where = rng.choice(["out", "out", ".", "d", rng.choice(STEMS), "d/"])
        argv = ["apply", "p.json", *used, "--output-dir", where]
    if used[0].startswith("-") and rng.random() < 0.7:
        argv = [a if a != used[0] else "./" + a for a in argv]
    return Case("", [Step(argv), Step(argv)] if rng.random() < 0.3 else [Step(argv)], files)


@scenario(1)
def companions(rng: Random) -> Case:
    """Scores and labels in npy files side by side."""
    table = random_table(rng, tame=rng.random() < 0.5)
    files = npy_scores(rng, table)
    scores = next(iter(files))
    if rng.random() < 0.2:
        other = rng.choice(list(files))
        files[other] = damaged(rng, files[other])
    event = ["--event"] if "--event" in table.options else []
    if rng.random() < 0.6:
        return Case("", [Step(["metrics", scores, "-m", "ece", *event])], files, damaged=True)
    files["p.json"] = json.dumps(documents.parameters(rng)).encode()
    return Case("", [Step(["apply", "p.json", scores, "-o", "o" + rng.choice(OUTPUT_SUFFIXES)])], files, damaged=True)


@scenario(1)
def greedy(rng: Random) -> Case:
    """Small files that ask for a lot of memory or time."""
    kind = rng.choice(["npz", "npz", "npz", "text", "columns", "groups"])
    if kind == "npz":
        name, content, more = "a.npz", lying_npz(rng, random_table(rng, tame=True)), []
    elif kind == "text":
        suffix, content = greedy_text(rng)
        name, more = "a" + suffix, ["--by", "site"] if suffix == ".csv" else []
    elif kind == "columns":
        n = rng.choice([500, 3000])
        head = ",".join(["label", *(f"prob_{i}" for i in range(n))])
        name, content, more = "a.csv", (head + "\n" + ",".join(["1"] + [str(1 / n)] * n) + "\n").encode(), []
    else:
        n = rng.choice([500, 3000])
        lines = [f"0.{i % 9 + 1},{i % 2},g{i}" for i in range(n)]
        name, content, more = "a.csv", "\n".join(["confidence,hit,site", *lines]).encode(), ["--by", "site"]
    files = {name: content}
    if rng.random() < 0.4 and not more:
        files["p.json"] = json.dumps(documents.parameters(rng)).encode()
        return Case("", [Step(["apply", "p.json", name, "-o", "o" + rng.choice(OUTPUT_SUFFIXES)])], files, damaged=True)
    argv = rng.choice([["metrics", name, "-m", "ece"], ["summarize", name, "-o", "s.parquet"]])
    return Case("", [Step([*argv, *more])], files, damaged=True)


@scenario(2)
def many_files(rng: Random) -> Case:
    """Several files at once: pooled, compared, paired, or calibrated into a folder."""
    files: dict[str, bytes] = {}
    for i in range(rng.choice([2, 2, 3])):
        table = random_table(Random(rng.getrandbits(32)), tame=rng.random() < 0.8)
        suffix, content = random_file(rng, table, plain=True)
        files[f"{'abc'[i]}{suffix}"] = damaged(rng, content) if rng.random() < 0.1 else content
    used = list(files)
    files["p.json"] = json.dumps(documents.parameters(rng)).encode()
    argv = rng.choice(
        [
            ["metrics", *used, "--pool", "-m", "ece"],
            ["metrics", *used, "-m", "ece", "-m", "ks", "-f", "csv"],
            ["compare", "metrics", *used],
            ["compare", "metrics", *used[:2], "--paired", "--resamples", "20", "-m", "ece"],
            ["fit", *used, "--pool", "-o", "q.json", "--method", "platt"],
            ["fit", *used, "--output-dir", "params", "--method", "isotonic"],
            ["apply", "p.json", *used, "--output-dir", "out"],
            ["summarize", *used, "-o", "s.parquet"],
            ["summarize", *used, "--output-dir", "cells"],
        ]
    )
    return Case("", [Step(argv)], files, damaged=True)


@scenario(1)
def summary_of_files(rng: Random) -> Case:
    """Summaries of ordinary rows, read back with options."""
    table = random_table(rng)
    content = parquet(rng, table, plain=True)[1]
    by = ["--by", table.group] if table.group and rng.random() < 0.5 else []
    first = Step(["summarize", "a.parquet", "-o", "s.parquet", *table.options, *by])
    then = rng.choice([["metrics", "s.parquet", "-m", "all"], ["fit", "s.parquet", "-o", "q.json", "--method", "bpm-averaged"], ["summarize", "s.parquet", "-o", "t.parquet"]])  # fmt: skip
    return Case("", [first, Step(then)], {"a.parquet": content})
