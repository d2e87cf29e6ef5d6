"""A studio: its uploads and its jobs, in a temporary folder that goes with it."""

import secrets
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch

from promask.data.sources import BUILT_IN
from promask.studio import processes
from promask.studio.guard import RefusedError
from promask.studio.jobs import AT_ONCE, Job, Jobs
from promask.studio.learning import Order, describe
from promask.studio.processes import Surroundings, Worker
from promask.studio.settings import Wish, stem_of
from promask.studio.uploads import MEGABYTE, Upload, Uploads

USUAL_LIMIT = 1000
"""Megabytes of an upload."""
DESCRIBE_SECONDS = 60.0
"""A damaged file may keep its reader busy for ever."""
FORGOTTEN = 12 * 3600
"""Seconds after which what nobody has asked for is removed."""


class Studio:
    """What the HTTP calls work on. It must be closed: then its processes end and its folder goes.

    `token` is what every request must have.
    """

    def __init__(self, limit: int = USUAL_LIMIT, at_once: int = AT_ONCE, threads: int | None = None) -> None:
        processes.prepare()
        self.token = secrets.token_urlsafe(24)
        self.limit = limit * MEGABYTE
        self.threads = threads or torch.get_num_threads()
        self.folder = Path(tempfile.mkdtemp(prefix="promask-studio-"))
        self.uploads = Uploads(self.folder / "uploads", self.limit)
        self.jobs = Jobs(self.folder / "jobs", at_once)
        self.closing = threading.Event()
        """Set when the studio is about to end: whoever watches a job stops watching."""
        self._built_in: dict[str, dict[str, Any]] = {}
        self._describing = threading.Semaphore(at_once)
        self._describers: set[Worker] = set()

    def close(self) -> None:
        """End all processes, and remove all files."""
        self.closing.set()
        for worker in list(self._describers):
            worker.end()
        self.jobs.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def describe_built_in(self, name: str) -> dict[str, Any]:
        """What a built-in data set holds."""
        if name not in BUILT_IN:
            raise RefusedError(404, f"{name!r} is not a built-in data set: choose one of {', '.join(BUILT_IN)}.")
        if name not in self._built_in:
            self._built_in[name] = self._described(name, self._surroundings(self.folder))
        return self._built_in[name]

    def describe_upload(self, upload: Upload) -> dict[str, Any]:
        """What the files of an upload hold."""
        if upload.description is None:
            folder, data = upload.place()
            self.uploads.taken(upload, 1)
            try:
                upload.description = self._described(data, self._surroundings(folder, upload.cache))
            finally:
                self.uploads.taken(upload, -1)
        return upload.description

    def submit(self, wish: Wish) -> Job:
        """Start what was asked for, or put it into the queue."""
        config = wish.check()
        upload, data, description = self.source(wish)
        settings = wish.settings()
        free = config.axis or ((1,) if config.pattern == "1d" else (0, 1))
        folder = self.jobs.new_folder()
        order = Order(data, folder / stem_of(data), wish.command(data), settings)
        facts = {"data": data, "free": list(free), "shape": description["shape"] if description else None}
        if upload is None:
            return self.jobs.submit(order, self._surroundings(folder), facts)
        self.uploads.taken(upload, 1)
        where = self._surroundings(upload.place()[0], upload.cache)
        try:
            return self.jobs.submit(order, where, facts, lambda: self.uploads.taken(upload, -1))
        except RefusedError:
            self.uploads.taken(upload, -1)
            raise

    def source(self, wish: Wish) -> tuple[Upload | None, str, dict[str, Any] | None]:
        """The upload that was chosen, if any, DATA as on the command line, and its description, if known."""
        if wish.upload is None:
            data = wish.data or ""
            return None, data, self._built_in.get(data)
        upload = self.uploads.get(wish.upload)
        return upload, upload.place()[1], upload.description

    def sweep(self) -> None:
        """Remove what nobody has asked for in a long time."""
        self.jobs.drop(keep=0, older=FORGOTTEN)
        self.uploads.drop(keep=0, older=FORGOTTEN)

    def _surroundings(self, folder: Path, cache: Path | None = None) -> Surroundings:
        return Surroundings(folder, cache or self.folder / "cache", self.threads)

    def _described(self, data: str, surroundings: Surroundings) -> dict[str, Any]:
        """Open data in a process of its own, which may fail, or never end."""
        with self._describing:
            worker = Worker(describe, data, surroundings)
            self._describers.add(worker)
            try:
                word, content = worker.next_message(DESCRIBE_SECONDS)
            finally:
                self._describers.discard(worker)
                worker.close()
        if word != "done":
            raise RefusedError(400, content)
        return content
