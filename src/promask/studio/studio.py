"""A studio: its uploads and its jobs, in a temporary folder that goes with it."""

import secrets
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch

from promask.data.readers.nifti import split_name
from promask.data.sources import BUILT_IN
from promask.studio import processes
from promask.studio.jobs import MOST_RUNNING, Job, Jobs
from promask.studio.processes import Environment, Worker
from promask.studio.request import LearnRequest, RefusedError
from promask.studio.tasks import LearnInput, describe
from promask.studio.uploads import MEGABYTE, Upload, Uploads

DEFAULT_LIMIT = 1000
"""Megabytes of an upload."""
DESCRIBE_SECONDS = 60.0
"""How long data may take to be opened: a damaged file may keep its reader busy for ever."""
IDLE_SECONDS = 12 * 3600
"""After this time, what nobody has asked for is removed."""


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
        self._built_in: dict[str, dict[str, Any]] = {}
        self._description_slots = threading.Semaphore(most_running)
        self._description_workers: set[Worker] = set()

    def close(self) -> None:
        """Stop all processes, and remove all files."""
        self.closing.set()
        for worker in list(self._description_workers):
            worker.stop()
        self.jobs.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def describe_built_in(self, name: str) -> dict[str, Any]:
        """What a built-in data set holds."""
        if name not in BUILT_IN:
            raise RefusedError(404, f"{name!r} is not a built-in data set: choose one of {', '.join(BUILT_IN)}.")
        if name not in self._built_in:
            self._built_in[name] = self._describe(name, self._environment(self.folder))
        return self._built_in[name]

    def describe_upload(self, upload: Upload) -> dict[str, Any]:
        """What the files of an upload hold."""
        if upload.description is None:
            folder, data = upload.locate()
            with self.uploads.in_use(upload):
                upload.description = self._describe(data, self._environment(folder, upload.folder / "cache"))
        return upload.description

    def submit(self, request: LearnRequest) -> Job:
        """Start what was asked for, or queue it."""
        config = request.check()
        upload, data, description = self.find_data(request)
        free = config.axis or ((1,) if config.pattern == "1d" else (0, 1))
        folder = self.jobs.folder / secrets.token_hex(8)
        folder.mkdir(parents=True)
        name, _ = split_name(Path(data))
        task_input = LearnInput(data, folder / name, request.command(data), request.settings())
        facts = {"data": data, "free": list(free), "shape": description["shape"] if description else None}
        if upload is None:
            return self.jobs.submit(task_input, self._environment(folder), facts)
        self.uploads.count_user(upload, 1)
        environment = self._environment(upload.locate()[0], upload.folder / "cache")
        try:
            return self.jobs.submit(task_input, environment, facts, lambda: self.uploads.count_user(upload, -1))
        except RefusedError:
            self.uploads.count_user(upload, -1)
            raise

    def find_data(self, request: LearnRequest) -> tuple[Upload | None, str, dict[str, Any] | None]:
        """The upload that was chosen, if any, DATA as on the command line, and its description, if known."""
        if request.upload is None:
            data = request.data or ""
            return None, data, self._built_in.get(data)
        upload = self.uploads.get(request.upload)
        return upload, upload.locate()[1], upload.description

    def remove_idle(self) -> None:
        """Remove what nobody has asked for in a long time."""
        self.jobs.drop(keep=0, older=IDLE_SECONDS)
        self.uploads.drop(keep=0, older=IDLE_SECONDS)

    def _environment(self, folder: Path, cache: Path | None = None) -> Environment:
        return Environment(folder, cache or self.folder / "cache", self.threads)

    def _describe(self, data: str, environment: Environment) -> dict[str, Any]:
        """Open data in a process of its own, which may fail, or never end."""
        with self._description_slots:
            worker = Worker(describe, data, environment)
            self._description_workers.add(worker)
            try:
                kind, content = worker.next_message(DESCRIBE_SECONDS)
            finally:
                self._description_workers.discard(worker)
                worker.close()
        if kind != "done":
            raise RefusedError(400, content)
        return content
