"""Documents of the tool's own that somebody has edited: parameters, saved runs, draws, records, summaries."""

from __future__ import annotations

import json
from random import Random

from fuzz import documents
from fuzz.case import Case, Step
from fuzz.damage import damaged, damaged_document
from fuzz.scenario import scenario


@scenario(6)
def broken_parameters(rng: Random) -> Case:
    """A parameter file that somebody has edited."""
    document = documents.parameters(rng)
    files = {"p.json": damaged_document(rng, document)}
    event = document["target"] == "event"
    files["a.parquet"] = documents.event_file() if event else documents.rows_file()
    argv = ["apply", "p.json", "a.parquet", "-o", "o.parquet"]
    if rng.random() < 0.15:
        argv = ["compare", "curves", "--truth", "p.json", "-n", "40", "--runs", "2", "--density-from", "a.parquet"]
    return Case("", [Step(argv)], files, damaged=True)


@scenario(2)
def broken_baseline(rng: Random) -> Case:
    """A saved run that somebody has edited."""
    document = rng.choice(documents.baselines())
    files = {"base.json": damaged_document(rng, document), "rows.parquet": documents.rows_file()}
    argv = [
        "metrics",
        "rows.parquet",
        "--baseline",
        "base.json",
        "--max-increase",
        rng.choice(["ece=0.01", "ks=0.5", "tce=0"]),
    ]
    argv += ["--by", "site"] if rng.random() < 0.3 else []
    return Case("", [Step(argv)], files, damaged=True)


@scenario(2)
def broken_draws(rng: Random) -> Case:
    """Draws kept for --resume that somebody has edited."""
    lines = rng.choice(documents.resumed())
    at = rng.randrange(len(lines))
    texts = [damaged_document(rng, line) if i == at else json.dumps(line).encode() for i, line in enumerate(lines)]
    return Case("", [Step(list(documents.RESUMED))], {"draws.jsonl": b"\n".join(texts) + b"\n"}, damaged=True)


@scenario(2)
def broken_record(rng: Random) -> Case:
    """The record of an output folder, or an output itself, that somebody has edited."""
    files = dict(documents.batches())
    record = next(name for name in files if name.endswith(".jsonl"))
    if rng.random() < 0.7:
        files[record] = b"".join(
            damaged_document(rng, json.loads(line)) + b"\n" for line in files[record].splitlines() if line.strip()
        )
    else:
        other = rng.choice(list(files))
        files[other] = damaged(rng, files[other])
    files |= {"rows.parquet": documents.rows_file(), "p.json": json.dumps(documents.parameters(Random(0))).encode()}
    return Case("", [Step([a for a in documents.BATCH if a != "-q"])], files, damaged=True)


@scenario(4)
def broken_summary(rng: Random) -> Case:
    """A summary whose header or table was changed, or whose bytes are damaged."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    content = rng.choice(documents.summaries())
    if rng.random() < 0.3:
        content = damaged(rng, content)
    else:
        table = pq.read_table(io.BytesIO(content))
        metadata = dict(table.schema.metadata or {})
        key = next((k for k in metadata if k.startswith(b"bpmcli")), None)
        if key and rng.random() < 0.6:
            metadata[key] = damaged_document(rng, json.loads(metadata[key]))
        else:
            at = rng.randrange(table.num_columns)
            values = table.column(at).to_pylist()
            values[rng.randrange(len(values))] = rng.choice([0, -1, 2**62, None, 1, 3])
            try:
                column = pa.array(values, rng.choice([table.schema.field(at).type, pa.float64()]))
            except (pa.ArrowException, TypeError):
                column = pa.array([str(v) for v in values])
            table = table.set_column(at, table.schema.names[at], column)
        out = io.BytesIO()
        pq.write_table(table.replace_schema_metadata(metadata), out)
        content = out.getvalue()
    argv = [
        *rng.choice([["metrics"], ["fit", "--method", "isotonic", "-o", "q.json"], ["summarize", "-o", "t.parquet"]]),
        "s.parquet",
    ]
    argv += ["--by", "site"] if rng.random() < 0.2 else []
    return Case("", [Step(argv)], {"s.parquet": content}, damaged=True)
