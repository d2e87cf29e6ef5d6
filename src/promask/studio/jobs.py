"""Jobs: each in a process of its own, a few at a time, the others in a queue."""

import secrets
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from promask.studio.guard import RefusedError
from promask.studio.learning import Order, learn
from promask.studio.processes import Surroundings, Worker, sentence_of

AT_ONCE = 2
"""Jobs that run at the same time."""
MOST_WAITING = 20
MOST_KEPT = 30
"""Jobs whose results are kept; then the oldest goes."""
QUEUED, RUNNING, DONE, FAILED, CANCELLED = "queued", "running", "done", "failed", "cancelled"
ENDED = (DONE, FAILED, CANCELLED)


@dataclass
class Job:
    """What is known of a job; `version` grows with everything that happens to it."""

    id: str
    folder: Path
    order: Order
    surroundings: Surroundings
    on_end: Callable[[], None]
    facts: dict[str, Any]
    """What the page needs to draw it: the shape of k-space and its free axes."""
    state: str = QUEUED
    version: int = 0
    error: str | None = None
    warnings: list[str] = field(default_factory=list)
    files: dict[str, int] | None = None
    masks: dict[str, int] | None = None
    """Files made ready, and masks measured: `done` of `total`."""
    step: dict[str, Any] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    summary: dict[str, Any] | None = None
    worker: Worker | None = None
    alive: bool = False
    """Whether it has a process, or is about to have one, even if that is being ended."""
    used: float = field(default_factory=time.monotonic)

    def note(self, word: str, content: Any) -> None:
        """Take in what its process says."""
        if word == "step":
            self.losses += content.pop("losses")
            self.step |= content
        elif word == "file":
            self.files = content
        elif word == "mask":
            self.masks = content
        elif word == "warning":
            self.warnings += [content] if content not in self.warnings else []
        elif word == "done":
            self.summary = content
        else:
            self.error = content
        self.version += 1

    def phase(self) -> str:
        """What a running job is doing: reading files, learning, or measuring what it learned."""
        if (self.order.out / "run.json").is_file():
            return "measuring"
        return "learning" if self.step else "reading"


class Jobs:
    """All jobs of a studio, below one folder."""

    def __init__(self, folder: Path, at_once: int = AT_ONCE) -> None:
        self.folder, self.at_once = folder, at_once
        self._all: dict[str, Job] = {}
        self._lock = threading.RLock()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def new_folder(self) -> Path:
        """A folder for the run of a job that is about to be submitted."""
        folder = self.folder / secrets.token_hex(8)
        folder.mkdir(parents=True)
        return folder

    def submit(
        self,
        order: Order,
        surroundings: Surroundings,
        facts: dict[str, Any],
        on_end: Callable[[], None] = lambda: None,
    ) -> Job:
        """Start a job, or put it into the queue; `order.out` lies in a new folder. `on_end` is called once."""
        job = Job(secrets.token_urlsafe(16), order.out.parent, order, surroundings, on_end, facts)
        with self._lock:
            if self._closed or len(self._in(QUEUED)) >= MOST_WAITING:
                shutil.rmtree(job.folder)
                raise RefusedError(503, f"{MOST_WAITING} jobs are waiting already: try again later.")
            self._all[job.id] = job
            self._start_next()
        self.drop(MOST_KEPT)
        return job

    def get(self, identity: str) -> Job:
        """The job of this id."""
        with self._lock:
            if identity not in self._all:
                raise RefusedError(404, "The studio no longer has this job: learn again.")
            job = self._all[identity]
            job.used = time.monotonic()
            return job

    def snapshot(self, job: Job, after: int = 0) -> dict[str, Any]:
        """All that is known of a job, with the losses after the first `after` ones."""
        with self._lock:
            waiting = self._in(QUEUED)
            return {
                "id": job.id,
                "state": job.state,
                "position": waiting.index(job) + 1 if job in waiting else None,
                "phase": job.phase() if job.state == RUNNING else None,
                "command": job.order.command,
                "error": job.error,
                "warnings": list(job.warnings),
                "files": job.files,
                "masks": job.masks,
                "after": after,
                "losses": job.losses[after:],
                "summary": job.summary,
                **job.facts,
                **job.step,
            }

    def cancel(self, identity: str) -> None:
        """End a job, and its process; its folder goes. One that has ended is forgotten."""
        job = self.get(identity)
        with self._lock:
            if job.alive and job.state == CANCELLED:
                return
            if job.state in ENDED:
                self._forget([job])
                return
            running = job.state == RUNNING
            job.state = CANCELLED
            job.version += 1
            worker = job.worker
        if running and worker is not None:
            worker.end()
        if not running:
            self._finish(job)

    def unfinished(self) -> list[Job]:
        """The jobs that run or wait."""
        with self._lock:
            return [job for job in self._all.values() if job.state not in ENDED]

    def drop(self, keep: int, older: float = 0.0) -> None:
        """Remove the oldest jobs that have ended: those beyond `keep`, if they are `older`, in seconds."""
        with self._lock:
            ended = sorted((job for job in self._all.values() if job.state in ENDED), key=lambda job: job.used)
            surplus = max(0, len(self._all) - keep)
            self._forget([job for job in ended[:surplus] if time.monotonic() - job.used >= older])

    def close(self) -> None:
        """End all jobs and wait until they are gone."""
        with self._lock:
            self._closed = True
        for job in self.unfinished():
            with suppress(RefusedError):
                self.cancel(job.id)
        for thread in self._threads:
            thread.join()

    def _in(self, state: str) -> list[Job]:
        return [job for job in self._all.values() if job.state == state]

    def _start_next(self) -> None:
        busy = sum(job.alive for job in self._all.values())
        for job in self._in(QUEUED)[: max(0, self.at_once - busy)]:
            job.state, job.alive = RUNNING, True
            job.version += 1
            thread = threading.Thread(target=self._run, args=(job,), daemon=True)
            self._threads = [*(each for each in self._threads if each.is_alive()), thread]
            thread.start()
        for job in self._in(QUEUED):
            job.version += 1  # its place in the queue may be another one

    def _run(self, job: Job) -> None:
        """Follow a job from its start to its end, in a thread of its own."""
        try:
            worker = Worker(learn, job.order, job.surroundings)
        except Exception as error:
            with self._lock:
                job.note("error", sentence_of(error))
        else:
            with self._lock:
                job.worker = worker
                cancelled = job.state == CANCELLED
            if cancelled:
                worker.end()
            word = ""
            while word not in ("done", "error"):
                word, content = worker.next_message()
                with self._lock:
                    job.note(word, content)
            worker.process.join(5)
            worker.close()
        self._finish(job)

    def _finish(self, job: Job) -> None:
        with self._lock:
            job.worker, job.alive = None, False
            if job.state == CANCELLED:
                job.error = None
            else:
                job.state = FAILED if job.error else DONE
            if job.state != DONE:
                shutil.rmtree(job.folder, ignore_errors=True)
            job.version += 1
            if not self._closed:
                self._start_next()
        job.on_end()

    def _forget(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._all.pop(job.id, None)
            shutil.rmtree(job.folder, ignore_errors=True)
