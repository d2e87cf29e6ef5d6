"""Learning for a network: it judges and stays as it is, its gradients are right, and other patients decide."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from comparisons import heart_file, heart_network, hearts
from networks import FEW, GRADIENTS, Judging, flags, own_loss, own_network, same_state, split, states
from torch import nn

from helpers import seeded
from promask import Run, learn
from promask.data.arrays import from_images
from promask.data.sample_sets import ArraySet
from promask.data.sources import load
from promask.learning.records import NetworkRecord
from promask.learning.selection import reference_masks
from promask.losses import make_loss
from promask.losses.segmentation import Segmentation
from promask.operators.fourier import spectrum
from promask.problem.objective import loss_and_slopes
from promask.sampling.pattern import Pattern
from promask.segmentation.classes import Classes
from promask.segmentation.network import Architecture, SegmentationNetwork
from promask.types import Batch


@pytest.fixture(scope="module")
def network():
    return heart_network(steps=25)


@pytest.fixture
def data(tmp_path):
    return heart_file(tmp_path / "hearts.npz")


def test_a_file_an_object_and_a_task_are_the_same_network(data, network, tmp_path):
    path = network.save(tmp_path / "unet.safetensors")
    first = learn(data, 4, network=path, **FEW)
    assert int(first.mask.sum()) == 24 * 20 // 4
    assert (first.config.task, first.config.loss, first.config.learner) == (
        "segmentation",
        "segmentation",
        "shape-race",
    )
    assert first.config.network == str(path)
    assert first.record.network == NetworkRecord(str(path), ("wall", "cavity"), finetuned=False)
    assert first.record.data.validation == 2
    assert first.network is None
    for given in ({"network": network}, {"task": Segmentation(network)}):
        assert torch.equal(learn(data, 4, **given, **FEW).probabilities, first.probabilities)
    again = Run.load(first.save(tmp_path / "run"))
    assert again.config == first.config
    assert torch.equal(again.mask, first.mask)


@pytest.mark.parametrize("settings", [FEW, *GRADIENTS.values()], ids=["shape", *GRADIENTS])
def test_a_network_of_ones_own_is_as_it_was(data, settings):
    module = own_network()
    before, how = states(module), flags(module)
    run = learn(data, 4, network=Segmentation(module, own_loss()), **settings)
    assert int(run.mask.sum()) == 24 * 20 // 4
    assert run.config.network == "given"
    assert run.record.network.classes is None
    assert same_state(module, before)
    assert flags(module) == how
    assert all(parameter.grad is None for parameter in module.parameters())
    json.dumps(run.record.to_json())


def test_a_network_judges_in_evaluation_mode(data):
    """Dropout would make it another one at every call, and batches would change its statistics."""
    seen = []

    class Watched(nn.Sequential):
        def forward(self, images):
            seen.append(any(flags(self)[0] + flags(self)[1]))
            return super().forward(images)

    learn(data, 4, network=Segmentation(Watched(own_network()).train(), own_loss()), **FEW)
    assert seen
    assert not any(seen)


@pytest.mark.parametrize("settings", [FEW, *GRADIENTS.values()], ids=["shape", *GRADIENTS])
def test_a_network_is_as_it_was_also_when_learning_fails(data, settings):
    def failing(outputs, labels):
        return outputs.mean() * math.nan

    module = own_network()
    before, how = states(module), flags(module)
    with pytest.raises(FloatingPointError, match="The loss became nan at step 1"):
        learn(data, 4, network=Segmentation(module, failing), **settings)
    assert same_state(module, before)
    assert flags(module) == how


@pytest.mark.parametrize("overlapping", [False, True])
def test_several_channels_and_overlapping_classes(overlapping):
    images, labels = hearts()
    images = np.stack([images, np.flip(images, 1)], 1)
    classes = Classes(("heart", "cavity"), (1, 2), overlapping)
    network = SegmentationNetwork(Architecture(2, classes, widths=(4, 8)), seed=5).eval()
    before = states(network)
    data = from_images(images, labels, subjects=[str(number // 2) for number in range(10)])
    run = learn(data, 5, network=network, pattern="1d", **FEW)
    assert int(run.mask[0].sum()) == 4
    assert all(math.isfinite(loss) for loss in run.history.loss)
    assert same_state(network, before)
    judging = Judging(data, Segmentation(network), run.distribution.pattern)
    losses = judging.plain(4)
    assert judging.loss(run.mask[0]) <= min(losses.values())


def test_several_channels_for_a_network_of_ones_own():
    images, labels = hearts()
    data = from_images(np.stack([images, images**2], 1), labels)
    run = learn(data, 4, network=Segmentation(own_network(2), own_loss()), **FEW)
    assert int(run.mask.sum()) == 24 * 20 // 4


@pytest.mark.parametrize("pattern", ["1d", "2d"])
@pytest.mark.parametrize(
    "settings",
    [FEW, {**GRADIENTS["response"], "steps": 1, "init": "uniform"}, GRADIENTS["response"]],
    ids=["shape", "hurried", "response"],
)
def test_it_does_not_end_above_the_reference_masks_on_patients_that_decide(data, network, pattern, settings):
    run = learn(data, 4, network=network, pattern=pattern, seed=1, **settings)
    judging = Judging(data, Segmentation(network), run.distribution.pattern)
    losses = judging.plain(run.distribution.budget)
    found = judging.loss(run.distribution.pattern.restrict(run.mask))
    assert found <= min(losses.values())
    if run.record.reference in losses:
        assert found == pytest.approx(losses[run.record.reference])
    if settings.get("init") == "uniform":
        assert run.record.reference is not None
        assert not run.variance.any()


def test_it_does_not_end_above_a_start_of_ones_own(data, network):
    """Such as the mask of another run."""
    first = learn(data, 4, network=network, **FEW)
    judging = Judging(data, Segmentation(network), first.distribution.pattern)
    run = learn(data, 4, network=network, init=first.mask.float(), **FEW, seed=3)
    assert judging.loss(run.mask) <= judging.loss(first.mask)


def test_other_patients_decide(data):
    """Nobody decides on images that were learned from, and the held-out part is not looked at."""

    class Bright(nn.Module):
        def forward(self, images):
            return torch.stack([images[:, 0], images[:, 0] - 0.5, images[:, 0] - 1], 1)

    learning, validation = split(data)
    assert not set(learning.groups) & set(validation.groups)
    whole = load(data)
    held_out = set(whole.groups) - set(learning.groups) - set(validation.groups)
    assert len(held_out) == 1

    labels = []

    def loss(outputs, truth):
        labels.extend(truth[:, 0])
        return own_loss()(outputs, truth)

    learn(data, 4, network=Segmentation(Bright(), loss), **FEW)
    by_group = {}
    for sample in whole:
        by_group.setdefault(sample.group, []).append(sample.label)
    looked_at = {
        group
        for group, known in by_group.items()
        for label in labels
        if any(torch.equal(label, one) for one in known)
    }
    assert looked_at == set(learning.groups) | set(validation.groups)


class Rows(nn.Module):
    """Sees bright rows: what the image is along them does not matter."""

    def forward(self, images):
        rows = images.mean((1, 3), keepdim=True) - images.mean((1, 2, 3), keepdim=True)
        rows = (20 * rows).expand(-1, 1, *images.shape[2:])
        return torch.cat([-rows, rows], 1)


def rows_and_columns(count=10, size=(16, 12)):
    """Bright rows, which are the label, in brighter columns, which hold more energy."""
    noise = np.random.default_rng(5)
    rows = noise.normal(size=(count, size[0], 1))
    columns = noise.normal(size=(count, 1, size[1]))
    rows, columns = rows - rows.mean(1, keepdims=True), columns - columns.mean(2, keepdims=True)
    images = 3 + 0.25 * rows + 0.3 * columns + 0.02 * noise.normal(size=(count, *size))
    labels = np.broadcast_to(rows > 0, images.shape)
    subjects = [str(number // 2) for number in range(count)]
    return from_images(images.astype(np.float32), labels.astype(int), subjects=subjects)


@pytest.mark.parametrize(
    "settings", [{"steps": 8, "batch_size": 6}, {"learner": "best-response", "steps": 30, "batch_size": 12}]
)
def test_a_network_gets_what_it_looks_at(settings):
    """This one looks at one column of k-space, and most energy is in a row."""
    data = rows_and_columns()
    run = learn(data, 12, network=Segmentation(Rows(), own_loss()), **settings)
    judging = Judging(data, Segmentation(Rows(), own_loss()), run.distribution.pattern)
    energy = reference_masks(judging.learned_from, judging.pattern, 16, 0)["energy"]
    assert judging.loss(run.mask) < 0.8 * judging.loss(energy)
    assert int(run.mask[:, 6].sum()) > int(energy[:, 6].sum())


@pytest.mark.parametrize("pattern", [Pattern((6, 5), (0, 1)), Pattern((6, 5), (1,))], ids=["2d", "1d"])
def test_gradients_are_those_of_finite_differences(pattern):
    """Through the network and the magnitude, in double precision, for a mask of each image."""
    network = heart_network(steps=2).double()
    images = torch.randn(2, 1, 6, 5, generator=seeded(), dtype=torch.complex128)
    labels = torch.randint(0, 3, (2, 6, 5), generator=seeded(1))
    batch = Batch(spectrum(images, (-2, -1)), images.abs(), labels=labels)
    masks = torch.rand(2, *pattern.unit_shape, generator=seeded(2), dtype=torch.float64)
    task = make_loss("0.7*segmentation + 0.3*mse", Segmentation(network))

    def loss(values):
        return float(loss_and_slopes(values, batch, pattern, task).loss)

    found = loss_and_slopes(masks, batch, pattern, task).gradients
    width, expected = 1e-6, torch.zeros_like(masks)
    for place in range(masks.numel()):
        moved = torch.zeros_like(masks)
        moved.view(-1)[place] = width
        expected.view(-1)[place] = (loss(masks + moved) - loss(masks - moved)) / (2 * width)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


class Unfinished(ArraySet):
    """Nobody looked for cavities."""

    def __getitem__(self, index):
        return replace(super().__getitem__(index), unlabelled=("cavity",))


@pytest.mark.parametrize("kind", [torch.int64, torch.uint8])
def test_classes_that_were_not_annotated_are_hidden(network, kind):
    images, labels = (torch.from_numpy(each) for each in hearts())
    labels = (labels * (labels < 2)).to(kind)
    seen = []

    class Watched(Segmentation):
        def __call__(self, images, batch):
            seen.append(batch.labels)
            return super().__call__(images, batch)

    losses = []
    for made in (ArraySet, Unfinished):
        seen.clear()
        data = made(images[:, None], "hearts", labels)
        losses.append(learn(data, 4, network=Watched(network), **FEW).history.loss)
        assert all(torch.equal(each > 0, each == 1) for each in seen)
        background = torch.cat([each[each <= 0] for each in seen])
        assert (background == (0 if made is ArraySet else -2)).all(), "bit 1: the second class"
    assert all(hidden < told for told, hidden in zip(*losses, strict=True)), "what may be is no mistake"
