"""Workers that import the tool once and run one case after the other, watched from outside."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

from forked import build_commands_once
from fuzz.case import Case
from fuzz.oracles import Finding, follow_up, judge
from fuzz.running import Ran, put_files, run_step

ADDRESS_SPACE = 6 << 30
"""A worker that asks for more gets a MemoryError: the machine must survive what is being tested."""
PATIENCE = 60.0
"""Seconds of processor time after which a worker is hanging; a case that is only slow says so itself."""
IDLE = 600.0
"""Seconds of waiting after which it is hanging, whatever it does."""
CASES_PER_WORKER = 1500
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Files in memory, where there is such a folder."""


class Report(NamedTuple):
    """One case and what was found."""

    index: int
    category: str
    findings: list[Finding]
    seconds: float
    megabytes: float
    commands: int


def run_case(case: Case, folder: Path) -> Iterator[tuple[Ran, list[Finding]]]:
    """All steps of a case, and commands that read what they wrote."""
    put_files(case, folder)
    for step in case.steps:
        ran = run_step(step, folder)
        yield ran, list(judge(case, ran))
        again = follow_up(case, ran)
        if again is not None:
            ran = run_step(replace(again, environment=step.environment), folder)
            yield ran, list(judge(case, ran))


def report_on(case: Case, index: int) -> Report:
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=FAST))
    start, found, peak, count = time.process_time(), [], 0.0, 0
    try:
        for ran, findings in run_case(case, folder):
            found += findings
            peak, count = max(peak, ran.megabytes), count + 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Report(index, case.name, found, time.process_time() - start, peak, count)


def _work(make: Callable[[int], Case], indices: list[int], counter: Any, pipe: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(COLUMNS="100", MPLBACKEND="agg")
    os.environ.pop("BPMCLI_DEBUG", None)
    build_commands_once()
    for _ in range(CASES_PER_WORKER):
        with counter.get_lock():
            at = counter.value
            counter.value += 1
        if at >= len(indices):
            break
        pipe.send(indices[at])
        pipe.send(report_on(make(indices[at]), indices[at]))
    pipe.send(None)


class _Worker:
    def __init__(self, make: Callable[[int], Case], indices: list[int], counter: Any) -> None:
        context = get_context("fork")
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(make, indices, counter, theirs), daemon=False)
        self.process.start()
        theirs.close()
        self.index: int | None = None
        self.begin(None)

    def begin(self, index: int | None) -> None:
        """A case begins, or none."""
        self.index, self.since, self.spent = index, time.monotonic(), self._processor_time()

    def _processor_time(self) -> float:
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def hangs(self) -> bool:
        return self._processor_time() - self.spent > PATIENCE or time.monotonic() - self.since > IDLE


def run_pool(make: Callable[[int], Case], indices: list[int], jobs: int) -> Iterator[Report]:
    """Reports as they come. A worker that dies or hangs is a finding, and is replaced."""
    counter = get_context("fork").Value("q", 0)
    workers = [_Worker(make, indices, counter) for _ in range(min(jobs, len(indices)))]
    try:
        while workers:
            for pipe in wait([w.pipe for w in workers], timeout=1.0):
                worker = next(w for w in workers if w.pipe is pipe)
                try:
                    message = pipe.recv()  # type: ignore[union-attr]
                except EOFError:
                    worker.process.join()
                    if worker.index is not None:
                        code = worker.process.exitcode or 0
                        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
                        yield Report(worker.index, "?", [Finding("death", name)], 0.0, 0.0, 0)
                    workers.remove(worker)
                    workers += [_Worker(make, indices, counter)] if counter.value < len(indices) else []
                    continue
                worker.begin(message if isinstance(message, int) else None)
                if isinstance(message, Report):
                    yield message
            for worker in workers:
                if worker.index is not None and worker.hangs():
                    yield Report(worker.index, "?", [Finding("hang", "killed")], PATIENCE, 0.0, 0)
                    worker.begin(None)
                    worker.process.kill()
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()
