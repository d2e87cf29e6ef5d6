"""The studio and its jobs: each in a process of its own, a few at a time, the others in a queue."""

import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from promask.data.readers.nifti import split_name
from promask.data.reading import Reading
from promask.data.sources import BUILT_IN
from promask.studio import processes
from promask.studio.processes import (
    Environment,
    LearnInput,
    Task,
    Worker,
    describe,
    describe_error,
    describe_mask,
    describe_pattern,
    learn,
)
from promask.studio.request import MEGABYTE, OWN_MASK, LearnRequest, RefusedError, Upload, Uploads

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
    """What the page needs to draw it: the shape of k-space, its directions, and which are undersampled."""
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


DEFAULT_LIMIT = 1000
"""Megabytes of an upload."""
DESCRIBE_SECONDS = 60.0
"""How long data may take to be opened: a damaged file may keep its reader busy for ever."""
MOST_DESCRIPTIONS = 20
"""Of an upload, or of all built-in data sets; then the oldest goes."""
IDLE_SECONDS = 12 * 3600
"""After this time, what nobody has asked for is removed."""


def _drop_oldest(descriptions: dict[Any, dict[str, Any]]) -> None:
    for oldest in list(descriptions)[:-MOST_DESCRIPTIONS]:
        descriptions.pop(oldest, None)


class Studio:
    """What the HTTP calls work on. It must be closed: then its processes stop and its folder goes.

    Every request must have its `token`.
    """

    def __init__(
        self, limit: int = DEFAULT_LIMIT, most_running: int = MOST_RUNNING, threads: int | None = None
    ) -> None:
        processes.start_method()
        self.token = secrets.token_urlsafe(24)
        self.limit = limit * MEGABYTE
        self.threads = threads or torch.get_num_threads()
        self.folder = Path(tempfile.mkdtemp(prefix="promask-studio-"))
        self.uploads = Uploads(self.folder / "uploads", self.limit)
        self.jobs = Jobs(self.folder / "jobs", most_running)
        self.closing = threading.Event()
        """Set when the studio is about to close: whoever watches a job stops watching."""
        self._built_in: dict[tuple[str, Reading], dict[str, Any]] = {}
        self._description_slots = threading.Semaphore(most_running)
        self._description_workers: set[Worker] = set()

    def close(self) -> None:
        """Stop all processes, and remove all files."""
        self.closing.set()
        for worker in list(self._description_workers):
            worker.stop()
        self.jobs.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def describe_built_in(self, name: str, reading: Reading = Reading()) -> dict[str, Any]:
        """What a built-in data set holds, if it is read in this way."""
        if name not in BUILT_IN:
            raise RefusedError(404, f"{name!r} is not a built-in data set: choose one of {', '.join(BUILT_IN)}.")
        known = self._built_in
        if (found := known.get((name, reading))) is None:
            found = known[name, reading] = self._describe(
                describe, (name, reading), self._environment(self.folder)
            )
            _drop_oldest(known)
        return found

    def describe_upload(self, upload: Upload, reading: Reading = Reading()) -> dict[str, Any]:
        """What the files of an upload hold, if they are read in this way."""
        known = upload.descriptions
        if (found := known.get(reading)) is None:
            folder, data = upload.locate()
            with self.uploads.in_use(upload):
                environment = self._environment(folder, upload.folder / "cache")
                found = self._describe(describe, (data, reading), environment)
            known[reading] = found
            _drop_oldest(known)
        return found

    def describe_mask(self, upload: Upload) -> dict[str, Any]:
        """The shape and the acceleration of an upload that is a mask."""
        with self.uploads.in_use(upload):
            return self._describe(describe_mask, upload.locate_mask(), self._environment(upload.folder))

    def submit(self, request: LearnRequest) -> Job:
        """Start what was asked for, or queue it."""
        request.check()
        upload, data, description = self.find_data(request)
        mask, file = self.find_mask(request)
        pattern = request.pattern_on(description)
        folder = self.jobs.folder / secrets.token_hex(8)
        folder.mkdir(parents=True)
        name, _ = split_name(Path(data))
        beside = {} if file is None else {OWN_MASK: file}
        task_input = LearnInput(data, folder / name, request.command(data, file), request.settings(), beside)
        facts = {"data": data, **describe_pattern(pattern)}
        environment = self._environment(folder)
        if upload is not None:
            environment = self._environment(upload.locate()[0], upload.folder / "cache")
        used = [each for each in (upload, mask) if each is not None]

        def count_users(change: int) -> None:
            for each in used:
                self.uploads.count_user(each, change)

        count_users(1)
        try:
            return self.jobs.submit(task_input, environment, facts, lambda: count_users(-1))
        except RefusedError:
            count_users(-1)
            raise

    def find_data(self, request: LearnRequest) -> tuple[Upload | None, str, dict[str, Any] | None]:
        """The upload that was chosen, if any, DATA as on the command line, and its description, if known."""
        if request.upload is None:
            data = request.data or ""
            return None, data, self._built_in.get((data, request.reading()))
        upload = self.uploads.get(request.upload)
        return upload, upload.locate()[1], upload.descriptions.get(request.reading())

    def find_mask(self, request: LearnRequest) -> tuple[Upload | None, Path | None]:
        """The upload of a mask to compare with, and its file, if there is one."""
        if request.mask is None:
            return None, None
        upload = self.uploads.get(request.mask)
        return upload, upload.locate_mask()

    def remove_idle(self) -> None:
        """Remove what nobody has asked for in a long time."""
        self.jobs.drop(keep=0, older=IDLE_SECONDS)
        self.uploads.drop(keep=0, older=IDLE_SECONDS)

    def _environment(self, folder: Path, cache: Path | None = None) -> Environment:
        return Environment(folder, cache or self.folder / "cache", self.threads)

    def _describe(self, task: Task, task_input: Any, environment: Environment) -> dict[str, Any]:
        """Open data or a mask in a process of its own, which may fail, or never end."""
        with self._description_slots:
            worker = Worker(task, task_input, environment)
            self._description_workers.add(worker)
            try:
                kind, content = worker.next_message(DESCRIBE_SECONDS)
            finally:
                self._description_workers.discard(worker)
                worker.close()
        if kind != "done":
            raise RefusedError(400, content)
        return content
