"""Several objectives at once: read and written, and each counted as a share."""

import pytest
import torch
from comparisons import hearts
from networks import FEW, GRADIENTS, same_state, states

from promask import learn
from promask.errors import InputError
from promask.losses import make_loss
from promask.losses.base import WeightedSum
from promask.losses.image import ImageLoss
from promask.losses.segmentation import Segmentation
from promask.operators.fourier import spectrum
from promask.types import Batch


def test_a_sum_of_losses_is_read_and_written(network):
    task = make_loss("0.5*segmentation+2 * ssim", Segmentation(network))
    assert isinstance(task, WeightedSum)
    assert [term.weight for term in task.terms] == [0.5, 2.0]
    assert task.name == "0.5*segmentation + 2*ssim"
    assert make_loss(task.name, Segmentation(network)).name == task.name
    assert task.needs_labels
    images = make_loss("0.5*mse + 0.5*l1")
    assert not images.needs_labels
    assert [term.loss.name for term in images.terms] == ["mse", "l1"]
    assert make_loss("mse").name == "mse"


@pytest.mark.parametrize("weights", [(1e6, 2.5e7), (1 / 3, 0.123456789), (1e-7, 1.0)])
def test_weights_survive_being_written(weights):
    """A run repeats from its record."""
    task = make_loss(f"{weights[0]!r}*mse + {weights[1]!r}*l1")
    assert [term.weight for term in make_loss(task.name).terms] == list(weights)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0.5*mse + l1", "A sum of losses must be like"),
        ("mse + l1", "A sum of losses must be like"),
        ("0*mse + 1*l1", "with positive weights"),
        ("-1*mse + 1*l1", "with positive weights"),
        ("nan*mse", "with positive weights"),
        ("inf*mse + 1*l1", "with positive weights"),
        ("0.5*mse +", "A sum of losses must be like"),
        ("a*mse", "A sum of losses must be like"),
        ("1*mape + 1*mse", "Unknown loss 'mape'"),
        ("1*segmentation + 1*mse", "A segmentation needs a network: give one with `network`."),
    ],
)
def test_sums_that_are_none(text, sentence):
    with pytest.raises(InputError, match=sentence.replace("*", r"\*")):
        make_loss(text)


def batch_of_hearts(count=4):
    images, labels = (torch.from_numpy(each) for each in hearts(count))
    images = images[:, None]
    return Batch(spectrum(images, (-2, -1)), images, labels=labels)


def test_the_value_is_the_weighted_sum_of_shares(network):
    batch = batch_of_hearts()
    images = (0.9 * batch.targets).to(torch.complex64).requires_grad_()
    segmentation = Segmentation(network)
    mixed = make_loss("0.25*segmentation + 3*mse", segmentation).scaled_by([0.5, 0.01])
    expected = 0.25 * segmentation(images, batch) / 0.5 + 3 * ImageLoss("mse")(images, batch) / 0.01
    assert float(mixed(images, batch).detach()) == pytest.approx(float(expected.detach()))
    assert mixed.name == "0.25*segmentation + 3*mse"
    with pytest.raises(
        InputError, match=r"The losses of .* cannot be compared: one .*is not positive at the start"
    ):
        mixed.scaled_by([0.5, 0.0])


def test_a_loss_of_no_weight_changes_nothing(data, network):
    alone, mixed, other = (
        learn(data, 4, network=network, loss=loss, **FEW, seed=2)
        for loss in ("segmentation", "1*segmentation + 1e-9*mse", "1e-9*segmentation + 1*mse")
    )
    assert torch.equal(alone.mask, mixed.mask)
    assert not torch.equal(alone.mask, other.mask)


@pytest.mark.parametrize("settings", [FEW, GRADIENTS["response"]], ids=["shape", "response"])
def test_mixed_objectives_are_learned(data, network, settings):
    before = states(network)
    run = learn(data, 4, network=network, loss="0.5*segmentation + 0.5*mse", **settings)
    assert (run.config.task, run.config.loss) == ("segmentation", "0.5*segmentation + 0.5*mse")
    assert same_state(network, before)
    # In shares of what the energy mask gives, the loss is about 1.
    assert all(0.3 < loss < 3 for loss in run.history.loss)
    again = learn(data, **run.config.to_dict() | {"network": network})
    assert torch.equal(again.probabilities, run.probabilities)
