"""A studio that answers, and tasks that its processes run in tests."""

import io
import json
import os
import signal
import threading
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from file_writers import lines_of, write_mrd

from promask.studio.app import Server
from promask.studio.jobs import Studio

LONG = {"acceleration": 4, "recon": "cs", "steps": 100_000}
"""A job that goes on for longer than any test."""


@contextmanager
def serving(**settings):
    """A studio, and its server on a free port; both are gone afterwards, with everything that they started."""
    studio = Studio(threads=1, **settings)
    server = Server(studio)
    thread = threading.Thread(target=server.run_until_signal)
    thread.start()
    try:
        yield server
    finally:
        server.handle_exit(signal.SIGTERM, None)
        thread.join(20)
        assert not thread.is_alive()
        assert not studio.folder.exists()


@contextmanager
def calling(server):
    """A client that has the token."""
    base, _, token = server.url.partition("/?token=")
    with httpx.Client(base_url=base, headers={"X-Promask-Token": token}, timeout=60) as client:
        yield client


def images_file(path, count=6, size=24, seed=0):
    """A small file of images of three subjects."""
    generator = np.random.default_rng(seed)
    blobs = np.exp(-(np.linspace(-2, 2, size)[:, None] ** 2) - np.linspace(-1, 3, size) ** 2)
    images = blobs + 0.1 * generator.random((count, size, size))
    subjects = [f"subject {n * 3 // count}" for n in range(count)]
    np.savez(path, image=images.astype(np.float32), subject=subjects)
    return path


def kspace_file(path, count=6):
    """A file of the k-space of smooth images, 24 x 20, without a word on what its axes are."""
    rows, columns = np.linspace(-2, 2, 24)[:, None], np.linspace(-1, 3, 20)
    bumps = np.stack([np.exp(-(rows**2) - (columns - 0.2 * n) ** 2) for n in range(count)])
    images = bumps + 0.05 * np.random.default_rng(0).random(bumps.shape)
    shifted = np.fft.fft2(np.fft.ifftshift(images, (-2, -1)))
    np.save(path, np.fft.fftshift(shifted, (-2, -1)).astype(np.complex64))
    return path


def scanner_file(path):
    """A file of ISMRMRD: two slices of three coils, 24 samples along the readout, 20 lines."""
    kspace = np.load(kspace_file(path.with_suffix(".npy"))).reshape(2, 3, 24, 20, 1)
    return write_mrd(path, lines_of(kspace), (24, 20, 1))


def sent(client, *paths):
    """The id of an upload of these files."""
    upload = client.post("/api/uploads").json()["upload"]
    for path in paths:
        answer = client.put(f"/api/uploads/{upload}/{path.name}", content=path.read_bytes())
        assert answer.status_code == 201, answer.text
    return upload


def asked(client, **settings):
    """A job that the studio accepted."""
    answer = client.post("/api/jobs", json=settings)
    assert answer.status_code == 201, answer.text
    return answer.json()


def events_of(client, job):
    """What the page is told, from now to the end."""
    with client.stream("GET", f"/api/jobs/{job}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [json.loads(line[5:]) for line in answer.iter_lines() if line.startswith("data:")]


def run_of(client, job):
    """The files of a run, by their names, from the zip of the whole."""
    archive = zipfile.ZipFile(io.BytesIO(client.get(f"/api/jobs/{job}/run.zip").content))
    return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def until(condition, seconds=60):
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def is_alive(pid):
    """Whether there is such a process; one that has ended and waits for its parent does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def stubborn(task_input, send):
    """Does not end when it is asked to."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    send("ready", os.getpid())
    time.sleep(600)


def killed(task_input, send):
    """Ends without a word."""
    os.kill(os.getpid(), signal.SIGKILL)


def failing(task_input, send):
    """Fails with whatever it is given."""
    raise task_input


def talking(task_input, send):
    """Sends where it is."""
    send("folder", str(Path.cwd()))
    return task_input
