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

from promask.studio.processes import Environment, Worker, describe_error
from promask.studio.request import RefusedError
from promask.studio.tasks import LearnInput, learn

MOST_RUNNING = 2
MOST_WAITING = 20
MOST_KEPT = 30
"""Jobs whose results are kept; then the oldest goes."""
EXIT_SECONDS = 5.0
"""How long a process may take to exit by itself after its last message."""
QUEUED, RUNNING, DONE, FAILED, CANCELLED = "queued", "running", "done", "failed", "cancelled"
ENDED = (DONE, FAILED, CANCELLED)


@dataclass
class Job:
    """What is known of a job."""

    id: str
    folder: Path
    task_input: LearnInput
    environment: Environment
    on_end: Callable[[], None]
    facts: dict[str, Any]
    """What the page needs to draw it: the shape of k-space and its undersampled axes."""
    state: str = QUEUED
    error: str | None = None
    warnings: list[str] = field(default_factory=list)
    files: dict[str, int] | None = None
    masks: dict[str, int] | None = None
    """Files read, and masks measured: `done` of `total`."""
    step: dict[str, Any] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    summary: dict[str, Any] | None = None
    worker: Worker | None = None
    alive: bool = False
    """Whether it has a process, or is about to have one, even if that is being stopped."""
    used: float = field(default_factory=time.monotonic)

    def take(self, kind: str, content: Any) -> None:
        """Take in a message of its process."""
        if kind == "step":
            self.losses += content.pop("losses")
            self.step |= content
        elif kind == "warning":
            self.warnings += [content] if content not in self.warnings else []
        else:  # files, masks, error or done
            setattr(self, "summary" if kind == "done" else kind, content)

    def phase(self) -> str:
        """What a running job is doing: reading files, learning, or measuring what it learned."""
        if (self.task_input.out / "run.json").is_file():
            return "measuring"
        return "learning" if self.step else "reading"


class Jobs:
    """All jobs of a studio, below one folder."""

    def __init__(self, folder: Path, most_running: int = MOST_RUNNING) -> None:
        self.folder, self.most_running = folder, most_running
        self._all: dict[str, Job] = {}
        self._lock = threading.RLock()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def submit(
        self,
        task_input: LearnInput,
        environment: Environment,
        facts: dict[str, Any],
        on_end: Callable[[], None] = lambda: None,
    ) -> Job:
        """Start a job, or queue it; `task_input.out` lies in a new folder. `on_end` is called once."""
        job = Job(secrets.token_urlsafe(16), task_input.out.parent, task_input, environment, on_end, facts)
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
                **{name: getattr(job, name) for name in ("id", "state", "error", "files", "masks", "summary")},
                "position": waiting.index(job) + 1 if job in waiting else None,
                "phase": job.phase() if job.state == RUNNING else None,
                "command": job.task_input.command,
                "warnings": list(job.warnings),
                "after": after,
                "losses": job.losses[after:],
                **job.facts,
                **job.step,
            }

    def cancel(self, identity: str) -> None:
        """Stop a job and its process, and remove its folder. One that has ended is forgotten."""
        job = self.get(identity)
        with self._lock:
            if job.alive and job.state == CANCELLED:
                return
            if job.state in ENDED:
                self._forget([job])
                return
            running, worker = job.state == RUNNING, job.worker
            job.state = CANCELLED
        if running and worker is not None:
            worker.stop()
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
        """Cancel all jobs and wait until they are gone."""
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
        for job in self._in(QUEUED)[: max(0, self.most_running - busy)]:
            job.state, job.alive = RUNNING, True
            thread = threading.Thread(target=self._follow, args=(job,), daemon=True)
            self._threads = [*(each for each in self._threads if each.is_alive()), thread]
            thread.start()

    def _follow(self, job: Job) -> None:
        """Follow a job from its start to its end, in a thread of its own."""
        try:
            worker = Worker(learn, job.task_input, job.environment)
        except Exception as error:
            with self._lock:
                job.take("error", describe_error(error))
        else:
            with self._lock:
                job.worker = worker
                cancelled = job.state == CANCELLED
            if cancelled:
                worker.stop()
            kind = ""
            while kind not in ("done", "error"):
                kind, content = worker.next_message()
                with self._lock:
                    job.take(kind, content)
            worker.process.join(EXIT_SECONDS)
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
            if not self._closed:
                self._start_next()
        job.on_end()

    def _forget(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._all.pop(job.id, None)
            shutil.rmtree(job.folder, ignore_errors=True)
