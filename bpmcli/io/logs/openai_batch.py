"""OpenAI batch output: one response per line, with `custom_id`. It has answers and their confidence, but no labels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from string import ascii_uppercase
from typing import Any

from bpmcli.io.logs.letters import answer_log_odds
from bpmcli.io.logs.log_reader import LogReader, LogSample, SkipSample, json_lines


class OpenAIBatchLog(LogReader):
    """Answer letters with their log-odds."""

    label = "openai-batch"
    outcome_hint = "the log has no true answers: --label FILE --id sample, where FILE has the columns sample and label"
    how_to_log = 'ask for "logprobs": true and "top_logprobs": 10, and for an answer that is one letter'

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        first = start.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", 1)[0]
        return first.startswith(b"{") and b'"custom_id"' in first and b'"response"' in first

    def entries(self) -> Iterator[tuple[str, Any]]:
        self.task = os.path.basename(self.path).split(".")[0]
        for row, entry in json_lines(self.path):
            yield str(entry.get("custom_id", f"in line {row}")), entry

    def sample_of(self, name: str, entry: Any) -> LogSample:
        response = entry.get("response") or {}
        if entry.get("error") or response.get("status_code", 200) != 200:
            raise SkipSample("the request failed")
        body = response["body"]
        content = (body["choices"][0].get("logprobs") or {}).get("content")
        letter, x = answer_log_odds(content, ascii_uppercase)
        return LogSample(name, x, None, letter, self.task, str(body.get("model", "")))
