"""A network that is trained on while the mask is learned: a copy, kept if it is better."""

import pytest
import torch
from comparisons import heart_file, heart_network
from networks import FEW, GRADIENTS, Judging, flags, own_loss, own_network, same_state, states
from safetensors.torch import load_file
from torch import nn

from promask import Run, learn
from promask.losses.segmentation import Segmentation
from promask.segmentation.network import SegmentationNetwork


@pytest.fixture(scope="module")
def network():
    return heart_network(steps=25)


@pytest.fixture
def data(tmp_path):
    return heart_file(tmp_path / "hearts.npz")


@pytest.mark.parametrize("settings", [FEW, GRADIENTS["response"], GRADIENTS["published"]])
def test_a_network_that_is_trained_on_is_a_copy(data, settings, tmp_path):
    """One that knows nothing yet learns a lot; it is saved with the run, and read again."""
    given = heart_network()
    before, how = states(given), flags(given)
    run = learn(data, 4, network=given, finetune=True, network_rate=0.01, **settings | {"steps": 4})
    assert same_state(given, before)
    assert flags(given) == how
    assert isinstance(run.network, SegmentationNetwork)
    assert run.network is not given
    assert not same_state(run.network, before)
    assert not run.network.training
    assert run.record.network.finetuned
    assert run.history.loss[-1] < run.history.loss[0]
    judgings = [Judging(data, Segmentation(each), run.distribution.pattern) for each in (run.network, given)]
    assert judgings[0].loss(run.mask) < judgings[1].loss(run.mask)
    folder = run.save(tmp_path / "run")
    again = Run.load(folder)
    assert same_state(again.network, states(run.network))
    assert again.network.architecture == given.architecture
    assert again.config.finetune
    assert {path.name for path in folder.iterdir()} >= {"network.safetensors", "run.json", "mask.npy"}
    run.save(folder)  # a run with a network may be replaced, too


def test_a_network_that_got_worse_is_dropped(data, network):
    before = states(network)
    run = learn(data, 4, network=network, finetune=True, network_rate=10.0, **FEW)
    assert run.network is None
    assert run.record.network.finetuned is False
    assert same_state(network, before)


def test_same_seed_same_network(data):
    one, again, other = (
        learn(data, 4, network=heart_network(), finetune=True, network_rate=0.01, seed=seed, **FEW)
        for seed in (0, 0, 1)
    )
    assert same_state(again.network, states(one.network))
    assert not same_state(other.network, states(one.network))


def test_a_network_of_ones_own_is_saved_as_weights(data, tmp_path):
    module = own_network()
    before, how = states(module), flags(module)
    task = Segmentation(module, own_loss())
    run = learn(data, 4, network=task, finetune=True, network_rate=0.01, **FEW, seed=1)
    assert same_state(module, before)
    assert flags(module) == how
    assert not same_state(run.network, before)
    assert torch.equal(run.network[1].running_mean, module[1].running_mean), "statistics are kept"
    folder = run.save(tmp_path / "run")
    weights = load_file(folder / "network.safetensors")
    empty = own_network(seed=9)
    empty.load_state_dict(weights)
    assert same_state(empty, states(run.network))
    assert Run.load(folder).network is None


def test_layers_that_a_network_does_not_use_are_left_alone(data):
    """Such as a second head, or a decoder for something else."""

    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = own_network(), nn.Linear(2, 2)

        def forward(self, images):
            return self.used(images)

    module = TwoHeads()
    task = Segmentation(module, own_loss())
    run = learn(data, 4, network=task, finetune=True, network_rate=0.01, **FEW)
    assert not torch.equal(run.network.used[4].weight, module.used[4].weight)
