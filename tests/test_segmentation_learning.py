"""Learning for a network: it judges and stays as it is, its gradients are right, and it may be trained on."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from monai.losses import DiceCELoss
from safetensors.torch import load_file
from torch import nn

from comparisons import heart_file, heart_network, hearts
from helpers import seeded
from promask import Config, Run, learn
from promask.cli import main
from promask.data import ArraySet, choose_part, from_images, load
from promask.errors import InputError
from promask.fourier import spectrum
from promask.learning.batches import Samples
from promask.learning.plain import JUDGES, mean_loss, plain_masks
from promask.learning.step import backpropagate
from promask.patterns import Pattern
from promask.segmentation.classes import Classes
from promask.segmentation.network import Architecture, SegmentationNetwork
from promask.tasks import Mixture, Reconstruction, Segmentation, make_task, segmentation_by
from promask.types import Batch

FEW = {"steps": 2, "batch_size": 4}
GRADIENTS = {
    "published": {"preset": "paper", "members": 1, **FEW, "steps": 3},
    "response": {"rule": "response", **FEW, "steps": 3},
}


@pytest.fixture(scope="module")
def network():
    return heart_network(steps=25)


@pytest.fixture
def data(tmp_path):
    return heart_file(tmp_path / "hearts.npz")


def states(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same_state(module, before):
    now = module.state_dict()
    return now.keys() == before.keys() and all(torch.equal(now[name], before[name]) for name in before)


def own_loss():
    return DiceCELoss(to_onehot_y=True, softmax=True)


def own_network(channels=1, seed=0):
    """As a user may have it: layers that behave otherwise in training, and some that are not to be trained."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = nn.Conv2d(channels, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5)
        module = nn.Sequential(*layers, nn.Conv2d(4, 3, 3, padding=1))
    module.train()
    module[1].eval()
    module[0].requires_grad_(False)
    return module


def flags(module):
    return [each.training for each in module.modules()], [each.requires_grad for each in module.parameters()]


def split(data):
    """The samples that are learned from, and those that decide: the split of a run, and once more of its part."""
    chosen = choose_part(load(data), None, usual="train")[0]
    return [choose_part(chosen, part, usual=part)[0] for part in ("train", "test")]


class Judging:
    """The losses of masks on the patients that decide."""

    def __init__(self, data, task, pattern):
        self.task, self.pattern = task, pattern
        self.learned_from, self.judges = (Samples(each, torch.device("cpu"), task.label) for each in split(data))

    def loss(self, units):
        return mean_loss(units, self.judges, self.pattern, self.task, JUDGES)

    def plain(self, budget):
        masks = plain_masks(self.learned_from, self.pattern, budget, 0)
        return {name: self.loss(units) for name, units in masks.items()}


# What learning gives


def test_a_file_an_object_and_a_task_are_the_same_network(data, network, tmp_path):
    path = network.save(tmp_path / "unet.safetensors")
    first = learn(data, 4, network=path, **FEW)
    assert int(first.mask.sum()) == 24 * 20 // 4
    assert (first.config.task, first.config.loss, first.config.rule) == ("segmentation", "segmentation", "shape")
    assert first.config.network == str(path)
    assert first.about["network"] == {"file": str(path), "classes": ("wall", "cavity"), "finetuned": False}
    assert first.about["data"]["validation"] == 2
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
    assert run.about["network"]["classes"] is None
    assert same_state(module, before)
    assert flags(module) == how
    assert all(parameter.grad is None for parameter in module.parameters())
    json.dumps(run.about)


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
    assert all(math.isfinite(loss) for loss in run.history["loss"])
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
def test_it_does_not_end_above_the_plain_masks_on_patients_that_decide(data, network, pattern, settings):
    run = learn(data, 4, network=network, pattern=pattern, seed=1, **settings)
    judging = Judging(data, Segmentation(network), run.distribution.pattern)
    losses = judging.plain(run.distribution.budget)
    found = judging.loss(run.distribution.pattern.restrict(run.mask))
    assert found <= min(losses.values())
    if run.about["plain"] in losses:
        assert found == pytest.approx(losses[run.about["plain"]])
    if settings.get("init") == "uniform":
        assert run.about["plain"] is not None
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
    "settings", [{"steps": 8, "batch_size": 6}, {"rule": "response", "steps": 30, "batch_size": 12}]
)
def test_a_network_gets_what_it_looks_at(settings):
    """This one looks at one column of k-space, and most energy is in a row."""
    data = rows_and_columns()
    run = learn(data, 12, network=Segmentation(Rows(), own_loss()), **settings)
    judging = Judging(data, Segmentation(Rows(), own_loss()), run.distribution.pattern)
    energy = plain_masks(judging.learned_from, judging.pattern, 16, 0)["energy"]
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
    task = make_task("0.7*segmentation + 0.3*mse", Segmentation(network))

    def loss(values):
        return float(backpropagate(values, batch, pattern, task).loss)

    found = backpropagate(masks, batch, pattern, task).gradients
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
        losses.append(learn(data, 4, network=Watched(network), **FEW).history["loss"])
        assert all(torch.equal(each > 0, each == 1) for each in seen)
        background = torch.cat([each[each <= 0] for each in seen])
        assert (background == (0 if made is ArraySet else -2)).all(), "bit 1: the second class"
    assert all(hidden < told for told, hidden in zip(*losses, strict=True)), "what may be is no mistake"


# Training on


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
    assert run.about["network"]["finetuned"]
    assert run.history["loss"][-1] < run.history["loss"][0]
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
    assert run.about["network"]["finetuned"] is False
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


# Several objectives


def test_a_sum_of_losses_is_read_and_written(network):
    task = make_task("0.5*segmentation+2 * ssim", Segmentation(network))
    assert isinstance(task, Mixture)
    assert [term.weight for term in task.terms] == [0.5, 2.0]
    assert task.name == "0.5*segmentation + 2*ssim"
    assert make_task(task.name, Segmentation(network)).name == task.name
    assert task.needs_labels
    images = make_task("0.5*mse + 0.5*l1")
    assert not images.needs_labels
    assert [term.task.name for term in images.terms] == ["mse", "l1"]
    assert make_task("mse").name == "mse"


@pytest.mark.parametrize("weights", [(1e6, 2.5e7), (1 / 3, 0.123456789), (1e-7, 1.0)])
def test_weights_survive_being_written(weights):
    """A run repeats from its record."""
    task = make_task(f"{weights[0]!r}*mse + {weights[1]!r}*l1")
    assert [term.weight for term in make_task(task.name).terms] == list(weights)


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
        ("1*segmentation + 1*mse", "A segmentation needs a network: give one with --network FILE."),
    ],
)
def test_sums_that_are_none(text, sentence):
    with pytest.raises(InputError, match=sentence.replace("*", r"\*")):
        make_task(text)


def batch_of_hearts(count=4):
    images, labels = (torch.from_numpy(each) for each in hearts(count))
    images = images[:, None]
    return Batch(spectrum(images, (-2, -1)), images, labels=labels)


def test_the_value_is_the_weighted_sum_of_shares(network):
    batch = batch_of_hearts()
    images = (0.9 * batch.targets).to(torch.complex64).requires_grad_()
    segmentation = Segmentation(network)
    mixed = make_task("0.25*segmentation + 3*mse", segmentation).in_units_of([0.5, 0.01])
    expected = 0.25 * segmentation(images, batch) / 0.5 + 3 * Reconstruction("mse")(images, batch) / 0.01
    assert float(mixed(images, batch).detach()) == pytest.approx(float(expected.detach()))
    assert mixed.name == "0.25*segmentation + 3*mse"
    with pytest.raises(
        InputError, match=r"The losses of .* cannot be compared: one .*is not positive at the start"
    ):
        mixed.in_units_of([0.5, 0.0])


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
    assert all(0.3 < loss < 3 for loss in run.history["loss"])
    again = learn(data, **run.config.to_dict() | {"network": network})
    assert torch.equal(again.probabilities, run.probabilities)


# Settings


def test_settings_for_networks():
    config = Config.preset("default", acceleration=8, network="unet.safetensors")
    assert (config.task, config.loss, config.rule) == ("segmentation", "segmentation", "shape")
    usual = Config.preset("default", acceleration=8)
    assert (usual.task, usual.loss, usual.rule, usual.network) == ("reconstruction", "mse", "response", None)
    by_task = Config.preset("default", acceleration=8, task="segmentation", network="unet.safetensors")
    by_loss = Config.preset("default", acceleration=8, loss="segmentation", network="unet.safetensors")
    assert by_task == by_loss == config
    mixed = Config.preset("default", acceleration=8, loss="0.5*segmentation + 0.5*mse", network="u", steps=3)
    assert (mixed.task, mixed.rule, mixed.steps) == ("segmentation", "shape", 3)
    images = Config.preset("default", acceleration=8, loss="mse", network="unet.safetensors")
    assert (images.task, images.rule) == ("reconstruction", "response")
    paper = Config.preset("paper", acceleration=8, network="unet.safetensors")
    assert (paper.task, paper.rule, paper.steps) == ("segmentation", "published", 2500)
    own = Config.preset("default", acceleration=8, network="unet.safetensors", rule="response")
    assert own.rule == "response"
    for each in (config, mixed, paper, own):
        assert Config.from_dict(json.loads(json.dumps(each.to_dict()))) == each


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"finetune": True}, "finetune needs a network"),
        ({"finetune": True, "network": "u", "loss": "mse"}, "finetune needs a network"),
        ({"finetune": True, "network": "u", "members": 2}, "finetune needs a network, and a single member"),
        ({"task": "segmentation", "loss": "mse"}, "The loss 'mse' has no segmentation in it"),
        ({"task": "registration"}, "task must be reconstruction or segmentation"),
        ({"network": "u", "network_rate": 0}, "network_rate must be a positive number"),
        ({"network": "u", "rule": "guess"}, "rule must be response or published or shape"),
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
    with pytest.raises(InputError, match="is for images with 3 axes, but those of the array have 2: train one"):
        learn(data, 4, network=heart_network(dimensions=3), **FEW)
    with pytest.raises(InputError, match="A segmentation needs a network: give one with --network FILE"):
        learn(data, 4, task="segmentation")
    with pytest.raises(InputError, match="A segmentation needs a network: give one with --network FILE"):
        learn(data, 4, loss="segmentation")
    with pytest.raises(InputError, match="has no segmentation in it: leave out the task, or the loss"):
        learn(data, 4, task="segmentation", loss="mse", network=network)
    with pytest.raises(InputError, match="finetune needs a network"):
        learn(data, 4, finetune=True)
    with pytest.raises(InputError, match="single member"):
        learn(data, 4, network=network, finetune=True, members=2)
    with pytest.raises(InputError, match="A task has its loss and its network: leave them out, or the task"):
        learn(data, 4, task=Segmentation(network), network=network)
    with pytest.raises(InputError, match="needs classes: give Segmentation one of them"):
        Segmentation(nn.Conv2d(1, 3, 1))
    with pytest.raises(InputError, match="The loss segmentation must return a scalar tensor"):
        learn(data, 4, network=Segmentation(own_network(), lambda outputs, labels: outputs), **FEW)
    with pytest.raises(InputError, match="is not a file: train a network"):
        segmentation_by(tmp_path / "nowhere.safetensors")


def test_a_network_may_look_on_while_a_mask_is_learned_for_images(data, network):
    """What the images are for was said."""
    expected = learn(data, 4, steps=5)
    for settings in ({"loss": "mse"}, {"task": "reconstruction"}, {"task": "reconstruction", "loss": "mse"}):
        run = learn(data, 4, network=network, steps=5, **settings)
        assert (run.config.task, run.config.loss, run.config.rule) == ("reconstruction", "mse", "response")
        assert torch.equal(run.probabilities, expected.probabilities)


# The command line


@pytest.fixture
def promask(capsys, monkeypatch, tmp_path, data, network):
    monkeypatch.chdir(tmp_path)
    network.save("unet.safetensors")

    def call(*arguments, status=0):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert stop.value.code == status, captured.err
        if status:
            assert captured.err.count("\n") == 1, "one sentence"
        return captured.err if status else captured.out

    return call


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
    assert (record["config"]["task"], record["config"]["rule"]) == ("segmentation", "shape")
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
        ("--task segmentation", "A segmentation needs a network: give one with --network FILE."),
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
