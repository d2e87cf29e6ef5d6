"""Settings and commands that have to do with a network, and what they refuse."""

import json

import numpy as np
import pytest
import torch
from comparisons import heart_network, hearts
from networks import FEW, own_loss, own_network
from torch import nn

from promask import Config, learn
from promask.data.arrays import from_images
from promask.errors import InputError
from promask.losses.segmentation import Segmentation, make_segmentation


def test_settings_for_networks():
    config = Config.preset("default", acceleration=8, network="unet.safetensors")
    assert (config.task, config.loss, config.learner) == ("segmentation", "segmentation", "shape-race")
    usual = Config.preset("default", acceleration=8)
    assert (usual.task, usual.loss, usual.learner, usual.network) == (
        "reconstruction",
        "mse",
        "best-response",
        None,
    )
    by_task = Config.preset("default", acceleration=8, task="segmentation", network="unet.safetensors")
    by_loss = Config.preset("default", acceleration=8, loss="segmentation", network="unet.safetensors")
    assert by_task == by_loss == config
    mixed = Config.preset("default", acceleration=8, loss="0.5*segmentation + 0.5*mse", network="u", steps=3)
    assert (mixed.task, mixed.learner, mixed.steps) == ("segmentation", "shape-race", 3)
    images = Config.preset("default", acceleration=8, loss="mse", network="unet.safetensors")
    assert (images.task, images.learner) == ("reconstruction", "best-response")
    paper = Config.preset("paper", acceleration=8, network="unet.safetensors")
    assert (paper.task, paper.learner, paper.steps) == ("segmentation", "gumbel-adam", 2500)
    own = Config.preset("default", acceleration=8, network="unet.safetensors", learner="best-response")
    assert own.learner == "best-response"
    for each in (config, mixed, paper, own):
        assert Config.from_dict(json.loads(json.dumps(each.to_dict()))) == each


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"finetune": True}, "finetune needs a network"),
        ({"finetune": True, "network": "u", "loss": "mse"}, "finetune needs a network"),
        ({"finetune": True, "network": "u", "members": 2}, "finetune needs a network, and a single member"),
        ({"task": "segmentation", "loss": "mse"}, "The loss 'mse' has no segmentation in it"),
        ({"task": "registration"}, "`task` must be reconstruction or segmentation"),
        ({"network": "u", "network_rate": 0}, "`network_rate` must be a positive number"),
        ({"network": "u", "learner": "guess"}, "Unknown learner 'guess'"),
    ],
)
def test_settings_that_do_not_fit(settings, sentence):
    with pytest.raises(InputError) as error:
        Config.preset("default", acceleration=8, **settings)
    assert sentence.replace("-", "_") in str(error.value).replace("-", "_")


def test_what_is_asked_of_data_and_networks(network, tmp_path):
    images, labels = hearts()
    data = from_images(images, labels)
    with pytest.raises(InputError, match="the array, slice 0 has no label: a segmentation needs labels"):
        learn(images, 4, network=network, **FEW)
    with pytest.raises(InputError, match="slice 0 has no label: a segmentation needs labels"):
        learn(images, 4, network=Segmentation(own_network(), own_loss()), **FEW)
    two = from_images(np.stack([images, images], 1), labels)
    with pytest.raises(InputError, match="is for images with 1 channel, but those of the array have 2 channels"):
        learn(two, 4, network=network, **FEW)
    with pytest.raises(InputError, match="is for images with 3 axes, but those of the array have 2 axes"):
        learn(data, 4, network=heart_network(dimensions=3), **FEW)
    with pytest.raises(InputError, match="A segmentation needs a network: give one with `network`"):
        learn(data, 4, task="segmentation")
    with pytest.raises(InputError, match="A segmentation needs a network: give one with `network`"):
        learn(data, 4, loss="segmentation")
    with pytest.raises(InputError, match="has no segmentation in it: leave out the task, or the loss"):
        learn(data, 4, task="segmentation", loss="mse", network=network)
    with pytest.raises(InputError, match="finetune needs a network"):
        learn(data, 4, finetune=True)
    with pytest.raises(InputError, match="single member"):
        learn(data, 4, network=network, finetune=True, members=2)
    with pytest.raises(
        InputError, match="A `task` has its loss and its network: leave out `loss` and `network`, or the task"
    ):
        learn(data, 4, task=Segmentation(network), network=network)
    with pytest.raises(InputError, match="needs classes: give Segmentation one of them"):
        Segmentation(nn.Conv2d(1, 3, 1))
    with pytest.raises(InputError, match="The loss segmentation must return a scalar tensor"):
        learn(data, 4, network=Segmentation(own_network(), lambda outputs, labels: outputs), **FEW)
    with pytest.raises(InputError, match="is not a file: train a network"):
        make_segmentation(tmp_path / "nowhere.safetensors")


def test_a_network_may_look_on_while_a_mask_is_learned_for_images(data, network):
    """What the images are for was said."""
    expected = learn(data, 4, steps=5)
    for settings in ({"loss": "mse"}, {"task": "reconstruction"}, {"task": "reconstruction", "loss": "mse"}):
        run = learn(data, 4, network=network, steps=5, **settings)
        assert (run.config.task, run.config.loss, run.config.learner) == ("reconstruction", "mse", "best-response")
        assert torch.equal(run.probabilities, expected.probabilities)


@pytest.fixture
def promask(commands, undrawn, data, network):
    network.save("unet.safetensors")
    return commands


HURRIED = ("--accel", 4, "--steps", 1, "--batch-size", 4, "--samples", 4)


def test_learn_and_evaluate(promask, tmp_path):
    promask(
        "learn", "hearts.npz", "--task", "segmentation", "--network", "unet.safetensors", *HURRIED, "--out", "run"
    )
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    evaluation = record["about"]["evaluation"]
    assert 0 < evaluation["dice"] <= 1
    assert 0 < evaluation["iou"] < evaluation["dice"]
    assert set(evaluation["classes"]) == {"wall", "cavity"}
    assert record["about"]["network"]["file"] == str(tmp_path / "unet.safetensors")
    assert (record["config"]["learner"], record["config"]["rule"]) == ("shape-race", "shape")
    assert not (tmp_path / "run" / "network.safetensors").exists()
    assert json.loads(promask("evaluate", "run", "hearts.npz", "--json")) == evaluation
    promask("learn", "hearts.npz", "--config", "run/run.json", "--out", "again")
    assert (np.load("run/probabilities.npy") == np.load("again/probabilities.npy")).all()
    (tmp_path / "unet.safetensors").unlink()
    assert "dice" not in json.loads(promask("evaluate", "run", "hearts.npz", "--json"))


def test_learn_and_train_on(promask, tmp_path):
    heart_network().save("new.safetensors")
    before = (tmp_path / "new.safetensors").read_bytes()
    words = ("--network", "new.safetensors", "--finetune", "--network-rate", 0.01)
    promask("learn", "hearts.npz", *words, *HURRIED, "--out", "run")
    assert (tmp_path / "new.safetensors").read_bytes() == before
    assert (tmp_path / "run" / "network.safetensors").is_file()
    evaluation = json.loads((tmp_path / "run" / "run.json").read_text())["about"]["evaluation"]
    found = json.loads(promask("evaluate", "run", "hearts.npz", "--json"))
    assert found == evaluation
    of_given = json.loads(promask("evaluate", "run", "hearts.npz", "--network", "new.safetensors", "--json"))
    assert of_given["dice_full"] != found["dice_full"]


def test_weights_alone_cannot_be_asked(promask, data):
    """Of a network of one's own there are no more than its weights: the images can still be measured."""
    task = Segmentation(own_network(), own_loss())
    learn(data, 4, network=task, finetune=True, network_rate=0.01, **FEW).save("run")
    assert "dice" not in json.loads(promask("evaluate", "run", "hearts.npz", "--json"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--task segmentation", "A segmentation needs a network: give one with --network."),
        ("--finetune", "finetune needs a network"),
        ("--task segmentation --loss mse --network unet.safetensors", "has no segmentation in it"),
        ("--network nowhere.safetensors", "nowhere.safetensors is not a file: train a network"),
        ("--network unet.safetensors --finetune --members 2", "a single member"),
        ("--network unet.safetensors --loss 0.5*segmentation+mse", "A sum of losses must be like"),
    ],
)
def test_what_the_command_line_refuses(promask, tmp_path, words, sentence):
    assert sentence in promask("learn", "hearts.npz", "--accel", 4, "--out", "run", *words.split(), status=2)
    assert not (tmp_path / "run").exists()
