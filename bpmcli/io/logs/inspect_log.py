"""Inspect: `.eval` archives (zip, also with zstd) and `.json` logs.

The confidence of a sample is the probability of its answer letter among the letters of its choices, from the
log-probabilities of the last answer token. `inspect:stated` takes the confidence that the model wrote into its answer.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from bpmcli.errors import DataError
from bpmcli.io.documents import LARGEST_FILE, parse
from bpmcli.io.logs.letters import answer_log_odds
from bpmcli.io.logs.log_reader import LogReader, LogSample, SkipSample, as_hit
from bpmcli.io.opening import open_bytes

HINT = "is the log complete?"
ZSTD = 93
STATED = re.compile(r"confiden(?:ce|t)\b\W{0,12}(?:is\W{1,4}|of\W{1,4})?(\d+(?:\.\d+)?)\s*(%|percent)?", re.IGNORECASE)


class InspectLog(LogReader):
    """Samples of an Inspect log."""

    label = "inspect"
    choices: ClassVar[Mapping[str, str]] = {
        "stated": "confidences that the model stated in its answer",
        "scorer": "the scores of this scorer",
    }
    how_to_log = (
        "run inspect eval with --logprobs --top-logprobs 10 on a multiple_choice task, or "
        "say --input-format inspect:stated if the answers state a confidence"
    )

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        if start.startswith(b"PK"):
            return any(name in start[:120] for name in (b"_journal/", b"samples/", b"header.json"))
        first = start.lstrip(b"\xef\xbb\xbf \r\n")[:2000]
        return first.startswith(b"{") and all(key in first for key in (b'"version"', b'"status"', b'"eval"'))

    def entries(self) -> Iterator[tuple[str, Any]]:
        self.score = "confidence" if "stated" in self.chosen else "log_odds"
        with open_bytes(self.path) as raw:
            zipped = raw.read(2) == b"PK"
            raw.seek(0)
            log, samples = _archive(raw) if zipped else _document(raw)
            about = log.get("eval")
            about = about if isinstance(about, dict) else {}
            self.task, self.model = str(about.get("task", "")), str(about.get("model", ""))
            for sample in samples:
                if not isinstance(sample, dict):
                    raise DataError("samples: one is not an object", HINT)
                yield str(sample.get("id", "?")), sample

    def sample_of(self, name: str, entry: Any) -> LogSample:
        if entry.get("error"):
            raise SkipSample("the sample ended in an error")
        scored = self._score(name, entry)
        hit = _hit(scored.get("value"))
        output = entry.get("output") or {}
        first = (output.get("choices") or [{}])[0]
        if self.score == "confidence":
            return LogSample(name, _stated(first, output), hit, task=self.task, model=self.model)
        letters = [chr(ord("A") + i) for i in range(len(entry.get("choices") or []))]
        if len(letters) < 2:
            raise SkipSample("not a multiple-choice question")
        content = (first.get("logprobs") or {}).get("content")
        letter, x = answer_log_odds(content, letters, str(scored.get("answer") or "").strip().upper())
        return LogSample(name, x, hit, letter, self.task, self.model)

    def _score(self, name: str, entry: Any) -> Any:
        scores = entry.get("scores")
        if not isinstance(scores, dict) or not scores:
            raise DataError(f"sample {name} has no scores", f"inspect score {self.path}")
        wanted = self.chosen.get("scorer")
        if wanted is None and len(scores) > 1:
            raise DataError(
                f"sample {name} has {len(scores)} scorers ({', '.join(scores)})",
                f"--input-format inspect:scorer={next(iter(scores))}",
            )
        if wanted is not None and wanted not in scores:
            raise DataError(
                f"sample {name} has no scorer '{wanted}' (found: {', '.join(scores)})",
                f"--input-format inspect:scorer={next(iter(scores))}",
            )
        return scores[wanted or next(iter(scores))]


def _hit(value: Any) -> bool:
    if value in ("C", "I"):
        return bool(value == "C")
    if value in ("N", "P"):
        raise SkipSample("no answer (N)" if value == "N" else "partly correct (P)")
    found = as_hit(value)
    if found is None:
        raise SkipSample("a score that is not correct or incorrect")
    return found


def _stated(choice: Any, output: Any) -> float:
    text = output.get("completion") or (choice.get("message") or {}).get("content") or ""
    if isinstance(text, list):
        text = " ".join(str(part.get("text", "")) for part in text if isinstance(part, dict))
    found = STATED.findall(str(text))
    if not found:
        raise SkipSample("no stated confidence")
    figure, percent = found[-1]
    value = float(figure)
    if value > 1 or percent:  # 85, "85 %" and 0.85 are the same confidence
        value /= 100
    if value > 1:
        raise SkipSample("a stated confidence above 100 %")
    return value


def _document(raw: Any) -> tuple[dict[str, Any], list[Any]]:
    text = raw.read(LARGEST_FILE + 1)
    if not text.strip():
        raise DataError("is empty", "was the evaluation stopped? run it again")
    log = parse(text, "is the log complete? inspect log convert --to eval makes an archive that can be read in parts")
    if not isinstance(log, dict):
        raise DataError("is not a JSON object", HINT)
    samples = log.get("samples")
    if not isinstance(samples, list):
        raise DataError("has no samples", "it was written without them: run inspect eval with --log-samples")
    return log, samples


def _archive(raw: Any) -> tuple[dict[str, Any], Iterator[Any]]:
    """The header and the samples of an archive, one at a time."""
    with zipfile.ZipFile(raw) as archive:
        members = archive.infolist()
    by_name = {member.filename: member for member in members}
    header = by_name.get("header.json") or by_name.get("_journal/start.json")
    log = _member(raw, header) if header else {}
    samples = [member for member in members if member.filename.startswith("samples/")]
    if not samples:
        raise DataError("has no samples", "was the run interrupted before the first one?")
    return (log if isinstance(log, dict) else {}), (_member(raw, member) for member in samples)


def _member(raw: Any, member: zipfile.ZipInfo) -> Any:
    """Decompressed by hand: Python's zipfile has zstd only from 3.14 on."""
    raw.seek(member.header_offset)
    start = raw.read(30)
    if len(start) < 30 or not start.startswith(b"PK\x03\x04"):
        raise DataError(f"{member.filename}: is damaged", HINT)
    name, extra = struct.unpack("<HH", start[26:30])
    raw.seek(name + extra, 1)
    packed = raw.read(min(member.compress_size, LARGEST_FILE))
    if member.compress_type == zipfile.ZIP_STORED:
        data = packed
    elif member.compress_type == zipfile.ZIP_DEFLATED:
        data = zlib.decompressobj(-15).decompress(packed, LARGEST_FILE + 1)
    elif member.compress_type == ZSTD:
        import pyarrow as pa

        data = pa.input_stream(pa.BufferReader(packed), compression="zstd").read(LARGEST_FILE + 1)
    else:
        raise DataError(f"{member.filename}: is compressed by method {member.compress_type}", "write the log again")
    if zlib.crc32(data) != member.CRC:
        raise DataError(f"{member.filename}: is damaged (its checksum differs)", HINT)
    try:
        return parse(data, HINT)
    except DataError as error:
        raise error.at(member.filename) from None
