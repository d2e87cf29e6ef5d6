"""What goes wrong with data for real: files that vanish or shrink, disks that are full or read-only."""

import os
import resource
import shutil
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import h5py
import nibabel
import numpy as np
import pytest
import scipy.io
import torch
from benchmarks.load import kept_in_memory

from helpers import smooth_images
from promask import learn
from promask.data import cache
from promask.data.file_set import prepare
from promask.data.folders import read_files
from promask.data.reading import Reading
from promask.data.sources import READERS, load
from promask.errors import InputError, InputWarning

IMAGES = smooth_images(12, size=(20, 18), phase=False).abs().float()[:, 0].numpy()


def write(path):
    """The images in a file of the format that its ending says."""
    if path.suffix == ".npy":
        np.save(path, IMAGES)
    elif path.suffix == ".npz":
        np.savez_compressed(path, image=IMAGES)
    elif path.suffix == ".gz":
        nibabel.Nifti1Image(IMAGES.T, np.diag([1.0, 1, 4, 1])).to_filename(path)
    elif path.suffix == ".mat":
        scipy.io.savemat(path, {"image": IMAGES})
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["image"] = IMAGES
    else:
        IMAGES.T.astype(np.complex64).ravel(order="F").tofile(path)
        path.with_suffix(".hdr").write_text("# Dimensions\n18 20 12 1\n")
    return path


FILES = ["a.npy", "a.npz", "a.nii.gz", "a.mat", "a.h5", "a.cfl"]
HOLDS = {"a.cfl": {"holds": "image"}}

# Files


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_vanishes_before_its_header_is_read(name, tmp_path):
    """It was there when the folder was listed."""
    file = write(tmp_path / name)
    (describe,) = read_files([str(tmp_path)], Reading(**HOLDS.get(name, {})), READERS)
    file.unlink()
    with pytest.raises(InputError, match=rf"Cannot read .*{name}: No such file"):
        describe()


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_vanishes_before_it_is_read(name, tmp_path):
    data = load(write(tmp_path / name), Reading(**HOLDS.get(name, {})))
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=rf"Cannot read .*{name}: No such file"):
        prepare(data)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_vanishes_while_it_is_read(name, tmp_path):
    """What is open stays readable."""
    file = write(tmp_path / name)
    stack = load(file, Reading(**HOLDS.get(name, {}))).files[0]
    samples = stack.read(stack.numbers)
    first, _ = next(samples)
    file.unlink()
    assert first.shape == stack.shape
    assert len(list(samples)) == len(stack.numbers) - 1


def test_a_file_that_is_cut_while_it_is_read(tmp_path):
    """As by someone who writes it anew: it is damaged; mapped into memory, it would have ended the process."""
    file = write(tmp_path / "a.npy")
    stack = load(file).files[0]
    samples = stack.read(stack.numbers)
    next(samples)
    os.truncate(file, 1000)
    with pytest.raises(InputError, match=r"a\.npy is damaged"):
        list(samples)


def test_files_that_vanish_while_a_folder_is_read(tmp_path):
    """The last of them, as soon as the first is ready: an error, or left out if that was asked for."""
    for index in range(40):
        np.save(tmp_path / f"s{index:02d}_0.npy", IMAGES + index)

    def remove(done, _):
        if done == 1:
            (tmp_path / "s39_0.npy").unlink()

    before = threading.active_count()
    with pytest.raises(InputError, match=r"Cannot read .*s39_0\.npy: No such file"):
        prepare(load(tmp_path), remove)
    assert threading.active_count() == before
    np.save(tmp_path / "s39_0.npy", IMAGES - 1)
    cache.clear()
    with pytest.warns(InputWarning, match=r"Left out: Cannot read .*s39_0\.npy"):
        left = prepare(load(tmp_path, Reading(skip_bad=True)), remove)
    assert len(left) == 39 * 12


@pytest.mark.parametrize("ending", ["npy", "cfl"])
def test_many_files_are_not_open_at_once(ending, tmp_path):
    """A system has a thousand places for open files; here there are few."""
    for index in range(40):
        write(tmp_path / f"s{index:02d}_0.{ending}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 24, hard))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            data = prepare(load(tmp_path, Reading(holds="image")))
        assert len(data) == 40 * 12
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Streaming


def test_the_cache_and_the_files_vanish_while_learning(tmp_path):
    """What is streamed can be made again from the files, but not without them; the thread that reads ends, too."""
    file = write(tmp_path / "a.npz")
    steps = []

    def on_step(progress):
        steps.append(progress.step)
        if progress.step == 5:
            cache.clear()
        if progress.step == 20:
            file.unlink()
            cache.clear()

    before = threading.active_count()
    with kept_in_memory(0), pytest.raises(InputError, match=r"Cannot read .*a\.npz: No such file"):
        learn(file, 4, steps=500, batch_size=4, patience=0, on_step=on_step)
    assert 20 <= len(steps) < 40
    assert threading.active_count() == before


COMMAND = """
import sys
from pathlib import Path
from benchmarks.load import kept_in_memory
from promask.cli.main import main
from promask.data import cache
from promask.problem.batches import SpectraSet

usual, count = SpectraSet._read, []

def read(self, indices):
    count.append(1)
    if len(count) == 20:
        Path(sys.argv[1]).unlink()
        cache.clear()
    return usual(self, indices)

SpectraSet._read = read
with kept_in_memory(0):
    main(["learn", sys.argv[1], "--accel", "4", "--out", sys.argv[2], "--steps", "500"])
"""


def test_the_command_says_so_in_one_sentence(tmp_path):
    words = [sys.executable, "-c", COMMAND, write(tmp_path / "a.npz"), tmp_path / "run"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    (sentence,) = [line for line in ended.stderr.splitlines() if "promask: images: " not in line]
    assert sentence.startswith("promask: Cannot read ")


# The cache

MOUNT = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
"""A disk of our own, which no other process sees and which goes with ours."""


def on_a_disk(folder, script, words, **environment):
    """Run promask where `script` mounts something on the folder."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is missing: no disk can be mounted for a test")
    attempt = subprocess.run([*MOUNT, f"mount -t tmpfs tmpfs {folder}"], capture_output=True, text=True)
    if attempt.returncode:
        pytest.skip(f"no disk can be mounted here: {attempt.stderr.strip()}")
    command = [*MOUNT, f'{script} && exec "$@"', "sh", sys.executable, "-m", "promask", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})


DISKS = {
    "full": ("mount -t tmpfs -o size=1m tmpfs {0}", "No space left on device"),
    "read-only": ("mount -t tmpfs -o ro tmpfs {0}", "Read-only file system"),
}


@pytest.fixture
def scans(tmp_path):
    """More than 1 MB."""
    images = smooth_images(40, size=(96, 96), phase=False).abs().float()[:, 0].numpy()
    np.save(tmp_path / "scans.npy", images)
    return tmp_path / "scans.npy"


@pytest.mark.parametrize("disk", DISKS)
def test_a_cache_on_a_bad_disk_is_replaced(disk, scans, tmp_path):
    """One warning, the same result, and nothing left behind."""
    script, reason = DISKS[disk]
    place, temporary = tmp_path / "disk", tmp_path / "temporary"
    place.mkdir()
    temporary.mkdir()
    words = ["learn", scans, "--accel", "8", "--steps", "3", "--json", "--out", tmp_path / "run"]
    ended = on_a_disk(place, script.format(place), words, PROMASK_CACHE=f"{place}/c", TMPDIR=str(temporary))
    assert ended.returncode == 0, ended.stderr
    assert (
        f"Cannot keep prepared samples in {place}/c: {reason}; they are kept in {temporary}/promask-"
        in ended.stderr
    )
    assert ended.stderr.count("Cannot keep") == 1, ended.stderr
    assert not list(temporary.iterdir())
    mask = torch.from_numpy(np.load(tmp_path / "run" / "mask.npy"))
    assert torch.equal(mask, learn(scans, 8, steps=3).mask)


def test_without_room_for_temporary_files_there_is_one_sentence(scans, tmp_path):
    """The cache and temporary files on the same full disk."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["learn", scans, "--accel", "8", "--steps", "3", "--out", tmp_path / "run"]
    script, reason = DISKS["full"]
    ended = on_a_disk(place, script.format(place), words, PROMASK_CACHE=f"{place}/c", TMPDIR=str(place))
    assert ended.returncode == 2
    assert f"{reason}, and there is no room for temporary files either" in ended.stderr
    assert "Traceback" not in ended.stderr
