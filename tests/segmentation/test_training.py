"""Training a network: the split, the classes, the loop, the record, and the command."""

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from helpers import assert_global_random_state_is_untouched
from promask.cli.main import main
from promask.data.arrays import from_images
from promask.data.builtin.cardiac import cardiac
from promask.data.reading import Reading
from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.errors import InputError, InputWarning
from promask.segmentation import fit as loop
from promask.segmentation.classes import Classes, Overlap, macro
from promask.segmentation.fit import (
    PRESETS,
    Recipe,
    find_recipe,
    make_augmentation,
    split,
    stack_samples,
    summarise,
)
from promask.segmentation.network import SegmentationNetwork
from promask.segmentation.train import choose_classes, train

TINY = Recipe(widths=(4, 8), epochs=2, batch=4)
SUBJECTS = np.repeat([f"p{number}" for number in range(10)], 2)


def discs(count=20, size=(24, 20), seed=0):
    """Bright discs, 2, in rings, 1, that lie anywhere; the values are noisy."""
    random = np.random.default_rng(seed)
    rows, columns = np.indices(size)
    labels = []
    for _ in range(count):
        row, column = random.uniform(7, 15, 2)
        distance = np.hypot(rows - row, columns - column)
        labels.append((distance < 6).astype(int) + (distance < 3.5))
    label = np.stack(labels)
    return (np.array([0.1, 0.5, 1.0])[label] + 0.05 * random.random(label.shape)).astype(np.float32), label


IMAGES, LABELS = discs()


def discs_of(labels=LABELS, subjects=SUBJECTS, images=IMAGES):
    return from_images(images, labels, list(subjects), name="discs")


# The split


def test_the_parts_share_no_one_and_are_those_of_mask_learning():
    data = discs_of()
    parts = split(data)
    groups = [set(part.groups) for part in (parts.train, parts.validation, parts.test)]
    assert [len(each) for each in groups] == [6, 2, 2]
    assert set.union(*groups) == set(data.groups)
    assert groups[2] == set(choose_part(data, "test", "test")[0].groups)
    assert groups[0] | groups[1] == set(choose_part(data, "train", "train")[0].groups)
    assert parts.sizes()["train"] == {"subjects": 6, "samples": 12}


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_samples(count):
    with pytest.raises(InputError, match="discs is too small to be split into training, validation and test"):
        split(discs_of(LABELS[:count], SUBJECTS[:1].repeat(count), IMAGES[:count]))


def test_three_samples_are_enough():
    for subjects in ("aaa", "abc"):
        sizes = split(discs_of(LABELS[:3], subjects, IMAGES[:3])).sizes()
        assert [size["samples"] for size in sizes.values()] == [1, 1, 1]


# The classes


def chosen(data, classes=None, overlapping=False, name="discs"):
    return choose_classes(split(data), classes, overlapping, name)


def test_every_number_is_a_class():
    assert chosen(discs_of(LABELS * 3)) == Classes(("3", "6"), (3, 6))
    assert chosen(discs_of(), overlapping=True) == Classes(("1", "2"), (1, 2), overlapping=True)


def test_named_classes():
    assert chosen(discs_of(), ["disc=2"]) == Classes(("disc",), (2,))
    assert chosen(discs_of(), "ring") == Classes(("ring",), (1,))
    assert chosen(discs_of(), Classes(("disc",), (2,))).names == ("disc",)


def test_known_data():
    four = discs_of(LABELS + (LABELS == 2) * (np.arange(20) % 2)[:, None, None])
    heart = chosen(four, name="acdc:/data/acdc")
    assert dict(zip(heart.names, heart.values, strict=True)) == {
        "right-ventricle": 1,
        "myocardium": 2,
        "left-ventricle": 3,
    }
    assert chosen(four, name="cardiac") == heart
    tumour = chosen(four, name="brats:/data/brats")
    assert tumour == Classes(("whole", "core", "enhancing"), (1, 2, 3), overlapping=True)
    assert chosen(four, ["all=1"], name="brats:/data/brats").overlapping


def only_in(part):
    """The discs, with the label 2 in one part alone and 1 elsewhere."""
    groups = set(getattr(split(discs_of()), part).groups)
    return discs_of(np.where(np.isin(SUBJECTS, list(groups))[:, None, None], LABELS, LABELS.clip(0, 1)))


@pytest.mark.parametrize(
    ("data", "classes", "words"),
    [
        (from_images(IMAGES, name="discs"), None, "discs, slice 0 has no label, but a network learns from labels"),
        (discs_of(LABELS * 0), None, "labels of discs are 0 everywhere"),
        (discs_of(LABELS - 1), None, "must be 0 or more, but one is -1"),
        (only_in("test"), None, r"class 2 \(label 2\) is in no training sample of discs"),
        (only_in("validation"), None, r"class 2 \(label 2\) is in no training sample"),
        (only_in("train"), ["disc=2"], "None of the classes is in the validation part of discs"),
        (discs_of(), ["disc=2", "liver=7"], r"class liver \(label 7\) is in no training sample"),
        (discs_of(), ["disc=two"], "but is 'disc=two'"),
    ],
)
def test_labels_that_cannot_be_learned(data, classes, words):
    with pytest.raises(InputError, match=words) as caught:
        train(data, classes=classes, preset=TINY)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_partial_annotation_needs_names(tmp_path):
    path = tmp_path / "discs.npz"
    np.savez(path, image=IMAGES, label=LABELS, subject=SUBJECTS, has_ring=np.arange(20) % 2 == 0)
    for classes in (None, ["rim=1", "disc=2"]):
        with pytest.warns(InputWarning, match=r"where ring was annotated.*with `classes`, such as ring="):
            train(path, classes=classes, preset=TINY, epochs=1)
    train(path, classes=["disc=2"], preset=TINY, epochs=1)  # rings are background on purpose
    network = train(path, classes=["ring=1", "disc=2"], preset=TINY, epochs=1)
    assert network.classes.names == ("ring", "disc")


def test_a_region_inside_another_must_be_annotated(tmp_path):
    """What is known to be the whole may be the core: it is no background, in which the core could be hidden."""
    for name in ("core", "whole"):
        path = tmp_path / f"{name}.npz"
        np.savez(path, image=IMAGES, label=LABELS, subject=SUBJECTS, **{f"has_{name}": np.arange(20) % 2 == 0})
    with pytest.raises(InputError, match="class core lies inside another one, but was not annotated"):
        train(tmp_path / "core.npz", classes=["whole=1", "core=2"], overlapping=True, preset=TINY)
    train(tmp_path / "whole.npz", classes=["whole=1", "core=2"], overlapping=True, preset=TINY, epochs=1)


# The samples


def test_stacked_samples():
    data = discs_of(images=-IMAGES)
    images, labels = stack_samples(data, [3, 1], Classes(("disc",), (2,)))
    np.testing.assert_array_equal(images[:, 0], IMAGES[[3, 1]])
    np.testing.assert_array_equal(labels, LABELS[[3, 1]])


def test_stacked_samples_tell_what_was_not_annotated(tmp_path):
    np.savez(tmp_path / "discs.npz", image=IMAGES, label=LABELS, has_ring=np.arange(20) != 3)
    classes = Classes(("disc", "ring"), (2, 1))
    augment = make_augmentation((24, 20), seed=0)
    for changed in (None, augment):
        _, labels = stack_samples(load(tmp_path / "discs.npz"), [3, 1], classes, changed)
        hidden = classes.hidden(labels)
        assert hidden.flatten(2).any(2).tolist() == [[False, True], [False, False]]
        assert torch.equal(hidden[0, 1], ~classes.regions(labels)[0].any(0))


def test_augmentation_keeps_images_and_labels_together():
    """An image whose values are its labels still is, up to interpolation at the edges, contrast and noise."""
    augment = make_augmentation((24, 20), seed=0)
    changed = []
    for label in torch.from_numpy(LABELS):
        image, moved = augment(label.unsqueeze(0).float(), label)
        assert image.shape == (1, 24, 20)
        assert (image.dtype, moved.dtype) == (torch.float32, torch.int64)
        assert set(moved.unique().tolist()) <= {0, 1, 2}
        means = [float(image[0][moved == value].mean()) for value in range(3)]
        assert means[0] < 0.25 < means[1] < 0.75 < means[2]
        changed.append(not torch.equal(moved, label))
    assert sum(changed) > 15


def test_augmentation_keeps_negative_labels():
    augment = make_augmentation((24, 20), seed=0)
    for label in torch.from_numpy(LABELS):
        _, moved = augment(torch.from_numpy(IMAGES[:1]), torch.where(label == 0, -3, label))
        assert set(moved.unique().tolist()) == {-3, 1, 2}


def test_augmentation_depends_on_its_seed_alone():
    image, label = torch.from_numpy(IMAGES[:1]), torch.from_numpy(LABELS[0])

    def three(seed):
        augment = make_augmentation((24, 20), seed)
        return torch.cat([augment(image, label)[0] for _ in range(3)])

    assert torch.equal(three(0), three(0))
    assert not torch.equal(three(0), three(1))
    assert_global_random_state_is_untouched(lambda: three(0))


def test_volumes_are_augmented_as_well():
    image = torch.rand(1, 8, 9, 10)
    moved, label = make_augmentation((8, 9, 10), 0)(image, (image[0] > 0.5).long())
    assert moved.shape == (1, 8, 9, 10)
    assert label.shape == (8, 9, 10)


# The loop


def bits(network):
    return [tensor.view(torch.int32).clone() for tensor in network.state_dict().values()]


def test_the_same_seed_gives_the_same_bits():
    def trained(seed):
        return bits(train(discs_of(), preset=TINY, seed=seed))

    networks = [trained(0), trained(0), trained(1)]
    assert all(map(torch.equal, networks[0], networks[1]))
    assert not all(map(torch.equal, networks[0], networks[2]))
    assert_global_random_state_is_untouched(lambda: trained(0))


def test_it_learns():
    """Rings and discs that everyone could draw."""
    images, labels = discs(50, seed=1)
    data = from_images(images, labels, [f"p{number}" for number in range(50)])
    network = train(data, preset=Recipe(widths=(8, 16), epochs=9, batch=4))
    record = network.record
    assert record["history"]["loss"][-1] < record["history"]["loss"][0] / 2
    assert record["test"]["dice"] > 0.7
    assert record["test"]["classes"]["2"]["dice"] > 0.8


def fake_scores(monkeypatch, *dice):
    """The validation Dice of each epoch, and the states that had it."""
    states = []
    values = iter(dice)

    def score(network, data):
        states.append(bits(network))
        dice = torch.tensor([[next(values)]], dtype=torch.float64)
        return Overlap(dice, dice)

    monkeypatch.setattr(loop, "score_network", score)
    return states


def test_the_best_state_is_kept_and_training_ends_when_it_is_old(monkeypatch):
    states = fake_scores(monkeypatch, 0.1, 0.5, 0.5, 0.4, 0.3, 0.9)
    told = []
    network = train(discs_of(), preset=Recipe((4, 8), epochs=9, patience=3, batch=4), on_epoch=told.append)
    assert [epoch.epoch for epoch in told] == [1, 2, 3, 4, 5]
    assert all(epoch.epochs == 9 for epoch in told)
    assert [epoch.dice for epoch in told] == network.record["history"]["dice"] == [0.1, 0.5, 0.5, 0.4, 0.3]
    assert [epoch.loss for epoch in told] == network.record["history"]["loss"]
    assert (network.record["epochs"], network.record["best_epoch"]) == (5, 2)
    assert all(map(torch.equal, bits(network), states[1]))
    assert not all(map(torch.equal, bits(network), states[4]))
    assert not network.training


def test_the_last_state_may_be_the_best(monkeypatch):
    states = fake_scores(monkeypatch, 0.1, 0.2, 0.3)
    network = train(discs_of(), preset=TINY, epochs=3)
    assert network.record["best_epoch"] == 3
    assert all(map(torch.equal, bits(network), states[2]))


@pytest.mark.parametrize("epochs", [1, 5, 10])
def test_any_number_of_steps(epochs):
    """With one batch for each epoch; PyTorch's schedule of 10 steps would divide by zero."""
    done = []
    train(discs_of(), preset=Recipe((4, 8), epochs, batch=16), on_batch=lambda *counts: done.append(counts))
    assert done == [(step, epochs) for step in range(1, epochs + 1)]


def test_a_loss_that_is_not_a_number(monkeypatch):
    monkeypatch.setattr(loop, "dice_cross_entropy", lambda *_: torch.tensor(math.nan, requires_grad=True))
    with pytest.raises(FloatingPointError, match="The loss became nan in epoch 1: are the values"):
        train(discs_of(), preset=TINY)


def test_complex_images_and_channels():
    phase = np.exp(1j * np.linspace(0, 3, 20))
    images = np.stack([IMAGES * phase, 100 * IMAGES], 1)
    network = train(discs_of(images=images), preset=TINY)
    assert network.architecture.channels == 2


# Recipes


def test_recipes():
    assert PRESETS["default"].widths == (16, 32, 64, 128, 256)
    assert (PRESETS["default"].epochs, PRESETS["default"].patience, PRESETS["default"].batch) == (20, 8, 4)
    assert find_recipe("small", 3) == replace(PRESETS["small"], epochs=3)
    assert find_recipe(TINY) == TINY


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"preset": "huge"}, "Unknown preset 'huge': choose one of default, small"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1, but is 0"),
        ({"seed": -1}, "seed must be a whole number from 0 to 4294967295, but is -1"),
        ({"seed": 2**32}, "seed must be"),
        ({"size": 3.5}, "`size` must be"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(InputError, match=words):
        train(discs_of(), **settings)


# The record


def test_the_record_is_plain_json_and_comes_back(tmp_path):
    network = train(discs_of(), preset=TINY, seed=5)
    record = network.record
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["data"] == "discs"
    assert (record["shape"], record["seed"], record["preset"], record["epochs"]) == ([1, 24, 20], 5, None, 2)
    assert record["split"] == {
        "train": {"subjects": 6, "samples": 12},
        "validation": {"subjects": 2, "samples": 4},
        "test": {"subjects": 2, "samples": 4},
    }
    assert set(record["test"]["classes"]) == {"1", "2"}
    assert record["seconds"] > 0
    assert {"promask", "torch", "monai"} <= set(record["versions"])
    assert record["reading"] == Reading().reading_settings()
    assert SegmentationNetwork.load(network.save(tmp_path / "a.safetensors")).record == record


def test_summary_of_scores():
    values = torch.tensor([[0.5, math.nan, math.nan], [1.0, 0.25, math.nan]], dtype=torch.float64)
    classes = Classes.parse(["a", "b", "c"])
    assert macro(values) == 0.5625
    assert summarise(Overlap(values, values / 2), classes) == {
        "dice": 0.5625,
        "iou": 0.28125,
        "classes": {
            "a": {"dice": 0.75, "iou": 0.375},
            "b": {"dice": 0.25, "iou": 0.125},
            "c": {"dice": None, "iou": None},
        },
    }


def test_the_built_in_heart():
    made = cardiac(subjects=5, slices=2, size=32)
    network = train(from_images(made.image, made.label, made.subject, name="cardiac"), preset=TINY, epochs=1)
    assert network.classes.names == ("right-ventricle", "myocardium", "left-ventricle")


# The command


@pytest.fixture
def promask(commands, monkeypatch):
    monkeypatch.setitem(PRESETS, "small", TINY)
    np.savez("discs.npz", image=IMAGES, label=LABELS, subject=SUBJECTS)
    np.savez("plain.npz", image=IMAGES)
    return partial(commands, "segment", "train")


def test_the_command(promask, tmp_path):
    options = {"--out": "nets/a.safetensors", "--preset": "small", "--epochs": 1, "--seed": 4}
    words = [word for option in options.items() for word in option]
    text = promask("discs.npz", *words, "--classes", "ring=1", "disc=2")
    for expected in ("Dice", "IoU", "ring", "disc", "macro", "4 samples of 2 subjects of discs.npz, held out"):
        assert expected in text
    assert "epoch 1 of 1" in text
    assert "The network is in nets/a.safetensors" in text
    network = SegmentationNetwork.load(tmp_path / "nets/a.safetensors")
    assert network.classes == Classes(("ring", "disc"), (1, 2))
    assert (network.record["seed"], network.record["preset"], network.record["epochs"]) == (4, "small", 1)
    same = train("discs.npz", classes=["ring=1", "disc=2"], preset="small", epochs=1, seed=4)
    assert all(map(torch.equal, bits(network), bits(same)))


def test_json_and_options_of_reading(promask):
    words = ["--size", 16, 16, "--slices", "0:16", "--overlapping", "--preset", "small", "--json"]
    summary = json.loads(promask("discs.npz", "--out", "a.safetensors", *words))
    network = SegmentationNetwork.load("a.safetensors")
    assert summary["network"] == "a.safetensors"
    assert summary["dice"] == network.record["test"]["dice"]
    assert summary["classes"] == network.record["test"]["classes"]
    assert summary["split"] == network.record["split"]
    assert set(summary) == {"network", "dice", "iou", "classes", "split", "epochs", "best_epoch", "seconds"}
    assert network.classes.overlapping
    assert network.record["shape"] == [1, 16, 16]
    assert sum(part["samples"] for part in summary["split"].values()) == 16


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("discs.npz --out unet.pt", "ends with .safetensors, but unet.pt does not"),
        ("discs.npz --out folder.safetensors", "folder.safetensors is a folder"),
        ("discs.npz --out discs.npz/a.safetensors", "Cannot write to"),
        ("discs.npz", "Missing option '--out'"),
        ("nowhere.npz --out a.safetensors", "nowhere.npz is neither a file"),
        ("plain.npz --out a.safetensors", "plain.npz, slice 0 has no label"),
        ("head --out a.safetensors", "head is too small to be split"),
        ("discs.npz --out a.safetensors --preset large", "Unknown preset 'large'"),
        ("discs.npz --out a.safetensors --epochs 0", "epochs must be"),
        ("discs.npz --out a.safetensors --classes ring=x", "but is 'ring=x'"),
    ],
)
def test_bad_input(promask, tmp_path, arguments, words):
    (tmp_path / "folder.safetensors").mkdir()
    assert words in promask(*arguments.split(), status=2)
    assert not (tmp_path / "a.safetensors").exists()


def test_a_command_is_missing(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["segment"])
    assert (stop.value.code, capsys.readouterr().err) == (
        2,
        "promask: Missing command. See promask segment --help.\n",
    )


def test_an_interruption_leaves_an_older_file(promask, tmp_path, monkeypatch):
    words = ["discs.npz", "--preset", "small", "--out", "a.safetensors"]
    promask(*words)
    before = (tmp_path / "a.safetensors").read_bytes()
    files = set(tmp_path.iterdir())

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "dice_cross_entropy", interrupt)
        assert "Interrupted." in promask(*words, status=130)
    with monkeypatch.context() as patch:
        patch.setattr("promask.segmentation.network.save_file", interrupt)
        assert "Interrupted." in promask(*words, status=130)
    assert (tmp_path / "a.safetensors").read_bytes() == before
    assert set(tmp_path.iterdir()) == files


def test_a_loss_that_is_not_a_number_is_one_sentence(promask, monkeypatch):
    monkeypatch.setattr(loop, "dice_cross_entropy", lambda *_: torch.tensor(math.nan, requires_grad=True))
    assert "The loss became nan in epoch 1" in promask("discs.npz", "--out", "a.safetensors", status=1)
