"""Every command that computes does so on the device that `--device` names."""

import numpy as np
import pytest
from comparisons import heart_file, heart_network
from second_device import NAME, second_device

from promask import learn

COMMANDS = [
    "learn hearts.npz --accel 4 --steps 2 --out learned",
    "evaluate run hearts.npz",
    "stability run hearts.npz --draws 2",
    "baseline energy hearts.npz --accel 4 --out energy.npy",
    "compare hearts.npz --accel 4 --methods energy --jobs 1 --out compared",
    "report run",
    "segment train hearts.npz --preset small --epochs 1 --out trained.safetensors",
    "figure film run --out film",
    "figure curves run --draws 1 --out curves",
    "figure reconstructions run energy --out reconstructions",
    "figure contours run --network unet.safetensors --out contours",
    "figure variance run --draws 2 --out variance",
    "figure noise run --data hearts.npz --coils 2 --recon sense --replicas 2 --out noise",
    "figure xt series --out xt",
    "figure movie series --out movie.gif",
]


@pytest.fixture(params=COMMANDS, ids=lambda line: line.partition(" --")[0])
def line(request, commands, tmp_path, undrawn, monkeypatch):
    """A command, in a folder with all that it needs."""
    monkeypatch.setattr("promask.figures.layout.save_as_both", lambda figure, out, _: [out])
    monkeypatch.setattr("promask.figures.layout.save_figure", lambda figure, path: None)
    heart_file(tmp_path / "hearts.npz")
    if "unet" in request.param:
        heart_network().save(tmp_path / "unet.safetensors")
    if " run" in request.param:
        learn("hearts.npz", 4, steps=2).save("run")
    if " series" in request.param:
        frames = np.random.default_rng(0).random((6, 4, 16, 12), np.float32)
        np.savez("cine.npz", image=frames, subject=[f"subject {number}" for number in range(6)])
        learn("cine.npz", 4, steps=2, axes="slice frame y x", recon="view-sharing", batch_size=16).save("series")
    return request.param.split()


def test_a_command_computes_there(line, commands):
    with second_device():
        commands(*line, "--device", NAME)


def test_a_wrong_device_is_one_sentence(line, commands, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    sentence = "promask: The device 'abacus' cannot be used here, choose another --device such as cpu: "
    assert commands(*line, "--device", "abacus", status=2).startswith(sentence)
    assert sorted(tmp_path.rglob("*")) == before, "nothing is written"


def test_no_command_that_computes_is_forgotten(parser):
    """Those that take data compute, but for inspect and the figure of probabilities, which show an image."""
    found = {**parser.commands, **parser.commands["segment"].commands, **parser.commands["figure"].commands}
    computing = {
        name for name, each in found.items() if {"data", "device"} & {parameter.name for parameter in each.params}
    } - {"inspect"}
    names = [line.partition(" --")[0].split() for line in COMMANDS]
    tested = {words[1] if words[0] in ("figure", "segment") else words[0] for words in names}
    assert tested == computing
    assert all("device" in {parameter.name for parameter in found[name].params} for name in tested)
