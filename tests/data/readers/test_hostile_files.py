"""Files that are made to fill the memory, to lead elsewhere or to run code: refused with one sentence."""

import ast
import os
import pickle
import subprocess
import sys
from pathlib import Path

import h5py
import hostile
import numpy as np
import pytest
import torch
from file_writers import IMAGE, images, put, read, refusal, write_h5, write_nifti, write_npz

from promask.data.file_set import prepare
from promask.data.inspection import inspect
from promask.data.sandbox import ALWAYS, TIMES
from promask.data.sources import load
from promask.errors import InputError
from promask.export import read_mask
from promask.segmentation.network import SegmentationNetwork

PACKAGE = Path(__file__).parents[3] / "src" / "promask"
GIGABYTE = 10**9
READ_ALL = """
import resource, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from promask import Run
from promask.data.sources import load, prepare
from promask.data.sandbox import sandbox
from promask.errors import InputError
from promask.export import read_mask
from promask.data.reading import Reading
from promask.segmentation.network import SegmentationNetwork

READ = {
    "data": lambda path: prepare(load(path, Reading(holds="image" if path.suffix == ".cfl" else None)))[0],
    "masks": read_mask, "runs": Run.load, "networks": SegmentationNetwork.load,
}
folder = Path(sys.argv[1])
read_mask(folder / "whole.npy"), SegmentationNetwork.load(folder / "whole.safetensors")
peak = lambda who: resource.getrusage(who).ru_maxrss * 1024
before = peak(resource.RUSAGE_SELF)
for path in sorted(folder.glob("*/*")):
    if path.suffix != ".hdr":
        try:
            READ[path.parent.name](path)
            said = "READ"
        except InputError as error:
            said = str(error)
        print(path.relative_to(folder), peak(resource.RUSAGE_SELF) - before, said, sep="|")
sandbox.stop()
print("sandbox", peak(resource.RUSAGE_CHILDREN), "", sep="|")
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What a process that reads all of the files says of each, and the most memory that it took until then."""
    folder = tmp_path_factory.mktemp("hostile")
    for kind in ("data", "masks", "runs", "networks"):
        (folder / kind).mkdir()
    for name, write in hostile.DATA.items():
        write(folder / "data" / name)
    for name, write in hostile.MASKS.items():
        write(folder / "masks" / name)
    hostile.absurd_run(folder / "runs" / "absurd")
    for name, changes in hostile.NETWORKS.items():
        hostile.network(folder / "networks" / f"{name}.safetensors", **changes)
    hostile.network(folder / "whole.safetensors")
    np.save(folder / "whole.npy", np.eye(4, dtype=bool))
    assert all(path.stat().st_size <= 1_000_000 for path in folder.rglob("*") if path.is_file())
    environment = {**os.environ, "PROMASK_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(PACKAGE.parent)
    # The memory of a process that was forked would count that of the tests.
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, folder], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split("|", 2) for line in done.stdout.splitlines()]
    return {name: (int(memory), said) for name, memory, said in lines}


NAMES = [
    *(f"data/{name}" for name in hostile.DATA),
    *(f"masks/{name}" for name in hostile.MASKS),
    "runs/absurd",
    *(f"networks/{name}.safetensors" for name in hostile.NETWORKS),
]


@pytest.mark.parametrize("name", NAMES)
def test_files_that_would_fill_the_memory(answers, name):
    memory, said = answers[name]
    assert said != "READ"
    assert Path(name).name in said
    assert said.endswith(".")
    assert memory < GIGABYTE


def test_the_memory_of_the_sandbox_is_limited(answers):
    assert 0 < answers["sandbox"][0] < GIGABYTE


def test_every_hostile_file_was_read(answers):
    assert set(answers) == {*NAMES, "sandbox"}


@pytest.mark.parametrize("name", ["a.nii.gz", "a.npz"])
def test_files_that_are_nearly_empty_are_read(tmp_path, name):
    """A volume of which little is not zero, and labels: deflate makes a thousandth of them."""
    volume = np.zeros((256, 256, 100), np.float32)
    volume[:, 100, :] = np.arange(256)[:, None]
    label = (volume > 100).astype(np.uint8)
    if name == "a.npz":
        write_npz(tmp_path / name, {"image": volume.transpose(2, 0, 1), "label": label.transpose(2, 0, 1)})
    else:
        write_nifti(tmp_path / name, volume, zooms=(1, 1, 3))
        write_nifti(tmp_path / "a_seg.nii.gz", label, zooms=(1, 1, 3))
        assert volume.nbytes > 100 * (tmp_path / name).stat().st_size
    data = read(tmp_path / name)
    assert (len(data), data[99].image.max(), int(data[99].label.sum())) == (100, 255, 155)


def test_what_is_not_compressed_never_meets_the_limits():
    """A value takes at least a byte in a file, and at most 64 while it is made ready."""
    from promask.data import sample_file
    from promask.data.readers import dicom

    assert max(sample_file.REAL, sample_file.COMPLEX) < TIMES
    assert TIMES > 8 * dicom.PIXEL, "a pixel may have a single bit"
    assert ALWAYS + TIMES * 1_000_000 < GIGABYTE


def test_hdf5_files_that_lead_to_others(tmp_path):
    secret = tmp_path / "secret.h5"
    write_h5(secret, {"image": IMAGE})
    np.arange(72, dtype=np.float32).tofile(tmp_path / "secret.raw")
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["image"] = h5py.ExternalLink(str(secret), "/image")
    with h5py.File(tmp_path / "deep.h5", "w") as file:
        file["group/inner"] = h5py.ExternalLink(str(secret), "/")
        file["image"] = h5py.SoftLink("/group/inner/image")
    with h5py.File(tmp_path / "raw.h5", "w") as file:
        file.create_dataset("image", (1, 9, 8), "f4", external=[(str(tmp_path / "secret.raw"), 0, 288)])
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        whole = h5py.VirtualLayout(IMAGE.shape, "f4")
        whole[:] = h5py.VirtualSource(str(secret), "image", IMAGE.shape)
        file.create_virtual_dataset("image", whole)
    for name in ("link.h5", "deep.h5", "raw.h5", "virtual.h5"):
        assert "refers to other files" in refusal(tmp_path / name)
        (tmp_path / name).rename(tmp_path / f"{name}.mat")
        assert "refers to other files" in refusal(tmp_path / f"{name}.mat")
        with pytest.raises(InputError, match="refers to other files"):
            read_mask((tmp_path / f"{name}.mat").rename(tmp_path / name))
    with h5py.File(tmp_path / "own.h5", "w") as file:
        file["elsewhere/array"] = IMAGE
        file["image"] = h5py.SoftLink("/elsewhere/array")
    np.testing.assert_array_equal(images(tmp_path / "own.h5", array="elsewhere/array")[:, 0], IMAGE)


@pytest.mark.parametrize(
    "name", ["../../outside", "/tmp/outside", "a/../../b", "two\nlines \x1b[31m", "x" * 60_000]
)
def test_names_in_archives(tmp_path, name):
    """They are names, and nothing is unpacked; a sentence with them stays one."""
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    write_npz(folder / "a.npz", {name: IMAGE, f"{name}2": IMAGE})
    assert len(read(folder / "a.npz", array=name)) == len(IMAGE)
    shown = [text for fact in inspect(folder / "a.npz").facts() for text in fact]
    for sentence in (refusal(folder / "a.npz"), refusal(folder / "a.npz", array="image"), *shown):
        assert sentence.isprintable()
        assert len(sentence) < 1000
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.npz"]


def test_a_pipe_is_not_waited_for(tmp_path):
    for name in ("a.npy", "a", "a.h5"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(InputError, match="neither a file nor a folder"):
            load(tmp_path / name)
    with pytest.raises(InputError, match="holds no file that promask reads"):
        load(tmp_path)


def test_links_that_go_round(tmp_path):
    np.save(put(tmp_path / "a" / "b" / "x.npy", b""), IMAGE)
    (tmp_path / "a" / "b" / "round").symlink_to(tmp_path, target_is_directory=True)
    assert len(prepare(load(tmp_path))) == len(IMAGE)


class Malicious:
    """Runs code when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def test_nothing_is_unpickled_from_real_files(tmp_path):
    marker = tmp_path / "it ran"
    thing = Malicious(marker)
    pickle.loads(pickle.dumps(thing))
    assert marker.exists(), "the files below would run code"
    marker.unlink()
    objects = np.empty((2, 2), object)
    objects[:] = thing
    folder = tmp_path / "files"
    folder.mkdir()
    np.save(folder / "objects.npy", objects, allow_pickle=True)
    np.savez(folder / "objects.npz", image=objects)
    np.savez(folder / "subject.npz", image=IMAGE[:2], subject=objects[0])
    for name in ("a.npy", "a.npz", "a.mat", "a.h5", "a.nii", "a.nii.gz", "a.dcm", "a.mrd"):
        put(folder / name, pickle.dumps(thing))
    with h5py.File(folder / "opaque.h5", "w") as file:
        file["image"], file.attrs["patient_id"] = np.void(pickle.dumps(thing)), np.void(pickle.dumps(thing))
    for path in folder.iterdir():
        refusal(path)
        with pytest.raises(InputError):
            read_mask(path)
    for name in ("torch.safetensors", "torch.npy"):
        torch.save({"unet": thing}, folder / name)
        with pytest.raises(InputError):
            SegmentationNetwork.load(folder / name)
    refusal(folder / "torch.npy")
    assert not marker.exists()


def test_nothing_in_the_package_could_unpickle():
    """No module that does is imported, and no function that may is called without being told not to."""
    forbidden = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml"}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not {alias.name.partition(".")[0] for alias in node.names} & forbidden, path
            elif isinstance(node, ast.ImportFrom) and [name.name for name in node.names] != ["PicklingError"]:
                assert (node.module or "").partition(".")[0] not in forbidden, path
            elif isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                keywords = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert called not in ("torch.load", "eval", "exec", "__import__"), path
                assert keywords.get("allow_pickle", "False") == "False", path
                if called.rpartition(".")[2] in ("load", "read_array") and called.startswith("np."):
                    assert keywords.get("allow_pickle") == "False", path
