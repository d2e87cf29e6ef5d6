"""Whatever computes can do so on another device, with the same result, and uses it only if it is asked to."""

import sys
from dataclasses import replace

import pytest
import torch
from comparisons import heart_file, heart_network
from second_device import NAME, second_device

from promask import InputError, Run, evaluate, learn
from promask.baselines import BASELINES, baseline_mask
from promask.data.device import find_device
from promask.data.sources import load
from promask.evaluation.stability import stability
from promask.learners import BestResponse
from promask.report.comparison import compare
from promask.report.measurements import measure_run
from promask.sampling.pattern import Pattern
from promask.segmentation.train import train

CHANCE = torch.rand(24, 20, generator=torch.Generator().manual_seed(0))
MASK = CHANCE < 0.3
FEW = {"steps": 3, "batch_size": 4, "patience": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Labelled images, and a network."""
    place = tmp_path_factory.mktemp("devices")
    heart_file(place / "hearts.npz")
    heart_network(steps=5).save(place / "unet.safetensors")
    return place


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Masks that learning compares its own with are learned in a few steps, too."""
    monkeypatch.setitem(BestResponse.about.defaults, "steps", 3)


@pytest.fixture(scope="module")
def run(folder):
    return learn(str(folder / "hearts.npz"), 4, members=2, init="uniform", **FEW)


def same_there_as_here(compute):
    """What is computed on the second device is what is computed here."""
    here = compute("cpu")
    with second_device():
        there = compute(NAME)
    assert there == here


@pytest.mark.parametrize("convention", ["paper", "fastmri"])
@pytest.mark.parametrize(
    "settings", [{}, {"coils": 4, "recon": "cg-sense", "noise": 0.01}], ids=["plain", "coils"]
)
def test_evaluation(folder, convention, settings):
    data = str(folder / "hearts.npz")
    same_there_as_here(
        lambda device: evaluate(MASK, data, convention=convention, device=device, **settings).summary()
    )


def test_evaluation_of_a_segmentation(folder):
    data, network = str(folder / "hearts.npz"), folder / "unet.safetensors"
    same_there_as_here(lambda device: evaluate(MASK, data, network=network, device=device).summary())


def test_stability(folder, run):
    data = str(folder / "hearts.npz")
    same_there_as_here(lambda device: stability(run, data, draws=2, device=device).summary())


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, each in BASELINES.items()
        if (name == "energy" or each.learns or each.tuned) and each.usual not in ("kt", "radial")
    ],
)
def test_baselines(folder, name, monkeypatch):
    for module, limit in (("loupe", "STEPS"), ("searched", "SWEEPS"), ("searched", "TRIALS")):
        monkeypatch.setattr(sys.modules[f"promask.baselines.{module}"], limit, 3)
    data, free = load(str(folder / "hearts.npz")), (0, 1)[-BASELINES[name].free[-1] :][:2]
    pattern = Pattern((24, 20), free)
    same_there_as_here(lambda device: baseline_mask(name, data, pattern, 4, device=device).tolist())


@pytest.mark.parametrize("task", ["reconstruction", "segmentation"])
def test_comparison(folder, tmp_path, task, undrawn):
    network = {"network": folder / "unet.safetensors"} if task == "segmentation" else {}
    methods = ["energy", "promask:mse" if network else "promask:1d"]

    def quality(device):
        out = tmp_path / device
        found = compare(
            str(folder / "hearts.npz"), 4, methods, out=out, task=task, learned_seeds=1, device=device, **network
        )
        return [(scores.method, scores.mean("dice" if network else "psnr")) for scores in found.scores]

    same_there_as_here(quality)


def test_measurements_of_a_run(folder, run):
    data, network = load(str(folder / "hearts.npz")), folder / "unet.safetensors"

    def measured(device):
        found = measure_run(run, data, network, device=device)
        assert all(image.image.device.type == "cpu" for each in found.examples for image in each.images.values())
        return found.evaluation.summary(), found.compared

    same_there_as_here(measured)


def test_training(folder):
    same_there_as_here(
        lambda device: train(str(folder / "hearts.npz"), preset="small", epochs=1, device=device).record["test"]
    )


LEARNING = {
    "images": {},
    "network": {"network": "unet.safetensors", "learner": "best-response"},
    "coils": {"coils": 3, "recon": "cg-sense", "iterations": 3},
    "paper": {"preset": "paper", "members": 2},
}


@pytest.mark.parametrize("name", LEARNING)
def test_learning(folder, name, monkeypatch):
    monkeypatch.chdir(folder)
    settings = {**LEARNING[name], **FEW}
    same_there_as_here(lambda device: learn("hearts.npz", 4, device=device, **settings).probabilities.tolist())


def test_the_device_of_a_run_is_not_used_unless_asked(folder, run, tmp_path):
    data = str(folder / "hearts.npz")
    replace(run, config=replace(run.config, device="cuda:7")).save(tmp_path / "run")
    elsewhere = Run.load(tmp_path / "run")
    assert evaluate(elsewhere, data).psnr == evaluate(run, data).psnr
    assert stability(elsewhere, data, draws=2).summary() == stability(run, data, draws=2).summary()
    with pytest.raises(InputError, match="device 'cuda:7' cannot be used here"):
        evaluate(elsewhere, data, device=elsewhere.config.device)


def test_devices_that_mix_are_noticed():
    """The second device is strict enough to be a test."""
    with second_device():
        there = torch.rand(4, 4, device=NAME)
        assert torch.fft.fft2(there.to(torch.complex64)).device.type == NAME
        with pytest.raises(RuntimeError, match="same device"):
            there + torch.rand(4, 4)
        with pytest.raises(RuntimeError):
            there.numpy()


@pytest.mark.parametrize("name", ["abacus", "meta", "cuda:99", "hpu", "", "cpu:x"])
def test_a_device_that_is_not_there_is_one_sentence(name):
    with pytest.raises(InputError, match="cannot be used here, choose another `device` such as cpu: ") as error:
        find_device(name)
    assert "\n" not in str(error.value)
    assert find_device("cpu:0").type == "cpu"
