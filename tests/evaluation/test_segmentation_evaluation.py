"""What a network finds with a mask, against MONAI's metrics and zero-filling written out."""

import json

import numpy as np
import pytest
import torch
from comparisons import heart_file, heart_network, hearts
from monai.metrics import DiceMetric, MeanIoU, compute_dice, compute_iou

from helpers import seeded
from promask import evaluate
from promask.cli.main import main
from promask.data.arrays import from_images
from promask.data.sample_sets import ArraySet
from promask.errors import InputError
from promask.learning.api import learn
from promask.learning.records import NetworkRecord
from promask.losses.segmentation import Segmentation
from promask.segmentation.classes import Classes
from promask.segmentation.network import Architecture, SegmentationNetwork
from promask.types import Geometry

MASK = torch.rand(24, 20, generator=seeded(3)) < 0.5


@pytest.fixture(scope="module")
def network():
    return heart_network(steps=25)


def zero_filled(images, mask):
    kspace = torch.fft.fftshift(torch.fft.fft2(torch.fft.ifftshift(images, dim=(-2, -1))), dim=(-2, -1))
    filled = torch.fft.ifft2(torch.fft.ifftshift(kspace * mask, dim=(-2, -1)))
    return torch.fft.fftshift(filled, dim=(-2, -1)).abs()


def one_hot(labels, count=3):
    return torch.stack([labels == value for value in range(count)], 1).float()


def assert_scores_are_monais(scores, predicted, truth, **settings):
    for found, expected in (
        (scores.dice, compute_dice(predicted, truth, **settings)),
        (scores.iou, compute_iou(predicted, truth, **settings)),
    ):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


def test_against_monai(network):
    """Complex images with a phase, of which only the middle is looked at, and one without a cavity."""
    images, labels = (torch.from_numpy(each) for each in hearts())
    images = torch.polar(images, torch.linspace(0, 2, 20).expand(10, 24, 20))[:, None]
    data = ArraySet(images, "hearts", labels, geometry=Geometry(region=(22, 18)))
    result = evaluate(MASK, data, network=network)
    inside = (..., slice(1, 23), slice(1, 19))
    truth = one_hot(labels[inside])
    with torch.no_grad():
        logits = [network(each[inside]) for each in (zero_filled(images, MASK), images.abs())]
    predicted = [one_hot(each.argmax(1)) for each in logits]
    assert 0.3 < float(compute_dice(predicted[0], truth, include_background=False).nanmean()) < 0.99
    for scores, seen in zip((result.segmented.with_mask, result.segmented.full), predicted, strict=True):
        assert scores.dice.shape == (10, 2)
        assert_scores_are_monais(scores, seen, truth, include_background=False)
        assert scores.dice[:, 1].isnan().tolist() == [False] * 9 + [True]
    summary = result.summary()
    for name, metric in (("dice", DiceMetric), ("iou", MeanIoU)):
        means = []
        for seen in predicted:
            monai = metric(include_background=False, reduction="mean")
            monai(seen, truth)
            means.append(float(monai.aggregate()))
        assert summary[name] == pytest.approx(means[0], rel=1e-6)
        assert summary[f"{name}_full"] == pytest.approx(means[1], rel=1e-6)
        assert summary[f"{name}_kept"] == pytest.approx(means[0] / means[1], rel=1e-6)
        monai = metric(include_background=False, reduction="mean_batch")
        monai(predicted[0], truth)
        for number, of_class in enumerate(("wall", "cavity")):
            assert summary["classes"][of_class][name] == pytest.approx(float(monai.aggregate()[number]), rel=1e-6)
    assert summary["dice"] != summary["dice_full"]


def test_overlapping_regions_of_two_channels():
    images, labels = (torch.from_numpy(each) for each in hearts(4))
    images = torch.stack([images, images.flip(-1)], 1)
    classes = Classes(("whole", "cavity"), (1, 2), overlapping=True)
    network = SegmentationNetwork(Architecture(2, classes, widths=(4, 8)), seed=5).eval()
    found = evaluate(MASK, from_images(images, labels), network=network).segmented.with_mask
    with torch.no_grad():
        predicted = (network(zero_filled(images, MASK)) > 0).float()
    assert 0 < float(predicted.mean()) < 1
    truth = torch.stack([labels >= 1, labels >= 2], 1).float()
    assert_scores_are_monais(found, predicted, truth)


def test_the_network_may_be_a_file_an_object_or_a_task(network, tmp_path):
    images, labels = hearts(3)
    data = from_images(images, labels)
    path = network.save(tmp_path / "unet.safetensors")
    own = Segmentation(network.unet, lambda outputs, labels: outputs.mean(), classes=network.classes)
    expected = evaluate(MASK, data, network=network).summary()
    for given in (str(path), path, Segmentation(network)):
        assert evaluate(MASK, data, network=given).summary() == expected
    assert set(evaluate(MASK, data, network=own).summary()) == set(expected)


def test_the_network_is_as_it_was():
    images, labels = hearts(3)
    network = heart_network(steps=5)
    data = from_images(images, labels)
    expected = evaluate(MASK, data, network=network).summary()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    noisy = torch.nn.Sequential(torch.nn.Dropout(0.9), network).train()
    task = Segmentation(noisy, classes=network.classes)
    assert evaluate(MASK, data, network=task).summary() == expected
    assert all(module.training for module in noisy.modules())
    assert all(parameter.requires_grad for parameter in noisy.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())


def test_what_is_nowhere_has_no_score(network):
    images, labels = hearts(3)
    summary = evaluate(MASK, from_images(images, np.minimum(labels, 1)), network=network).summary()
    assert summary["classes"]["cavity"] == dict.fromkeys(("dice", "iou", "dice_full", "iou_full"))
    assert summary["dice"] == summary["classes"]["wall"]["dice"]
    summary = evaluate(MASK, from_images(images, 0 * labels), network=network).summary()
    assert [summary[name] for name in ("dice", "iou", "dice_full", "dice_kept", "iou_kept")] == [None] * 5
    json.dumps(summary, allow_nan=False)


def test_classes_that_were_not_annotated_do_not_count(network):
    """Nothing is said of a cavity there, so nothing is wrong."""

    class Half(ArraySet):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            hidden = ("cavity",) if index == 0 else ()
            return type(sample)(sample.image, sample.label, sample.group, sample.name, hidden)

    images, labels = (torch.from_numpy(each) for each in hearts(3))
    found = evaluate(MASK, Half(images[:, None], "half", labels), network=network).segmented.full
    assert found.dice.isnan().tolist() == [[False, True], [False, False], [False, True]]


def test_networks_for_other_images(network):
    images, labels = hearts(2)
    data = from_images(images, labels)
    two = from_images(np.stack([images, images], 1), labels)
    with pytest.raises(InputError, match="is for images with 1 channel, but those of the array have 2 channels"):
        evaluate(MASK, two, network=network)
    volumes = heart_network(dimensions=3)
    with pytest.raises(
        InputError, match="is for images with 3 axes, but those of the array have 2 axes: train one"
    ):
        evaluate(MASK, data, network=volumes)
    with pytest.raises(InputError, match="the array, slice 0 has no label: a segmentation needs labels"):
        evaluate(MASK, images, network=network)
    unknown = Segmentation(network.unet, lambda outputs, labels: outputs.mean())
    with pytest.raises(InputError, match="needs classes: give Segmentation the classes"):
        evaluate(MASK, data, network=unknown)
    other = Segmentation(torch.nn.Conv2d(1, 5, 1), classes=network.classes)
    with pytest.raises(InputError, match=r"For 2 classes, .* must have shape \[2, 3, 24, 20\], but have \[2, 5"):
        evaluate(MASK, data, network=other)


def run_command(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return end.value.code, *capsys.readouterr()


def test_command_line(network, tmp_path, capsys):
    data, path, mask = heart_file(tmp_path / "hearts.npz"), tmp_path / "unet.safetensors", tmp_path / "mask.npy"
    network.save(path)
    np.save(mask, MASK.numpy())
    expected = evaluate(MASK, data, network=network).summary()
    code, out, _ = run_command(capsys, "evaluate", mask, data, "--network", path, "--json")
    assert (code, json.loads(out)) == (0, expected)
    code, out, _ = run_command(capsys, "evaluate", mask, data, "--network", path)
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line}
    for name, values in (*expected["classes"].items(), ("mean", expected)):
        assert rows[name] == [
            text
            for metric in ("dice", "iou")
            for text in (
                f"{values[metric]:.4f}",
                f"{values[f'{metric}_full']:.4f}",
                f"{values[metric] / values[f'{metric}_full']:.1%}",
            )
        ]
    assert "Dice" not in run_command(capsys, "evaluate", mask, data)[1]


def test_a_run_knows_its_network(network, tmp_path, capsys):
    """That beside it, or that where it was when the run was learned; without either, the images remain."""
    data, path, folder = heart_file(tmp_path / "hearts.npz"), tmp_path / "unet.safetensors", tmp_path / "run"
    network.save(path)
    learn(data, 2, steps=1).with_record(network=NetworkRecord(str(path))).save(folder)
    _, out, _ = run_command(capsys, "evaluate", folder, data, "--json")
    there = json.loads(out)
    assert there["dice_full"] == evaluate(MASK, data, network=network).summary()["dice_full"]
    heart_network(seed=4).save(folder / "network.safetensors")
    _, out, _ = run_command(capsys, "evaluate", folder, data, "--json")
    assert json.loads(out)["dice_full"] != there["dice_full"]
    _, out, _ = run_command(capsys, "evaluate", folder, data, "--network", path, "--json")
    assert json.loads(out) == there
    (folder / "network.safetensors").unlink()
    path.unlink()
    code, out, messages = run_command(capsys, "evaluate", folder, data, "--json")
    assert (code, "dice" in json.loads(out)) == (0, False)
    assert f"was learned for is not at {path} any more" in messages


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(None, "is not a file: train a network"), (b"weights", "is damaged or not a .safetensors file")],
)
def test_networks_that_cannot_be_read(content, sentence, tmp_path, capsys):
    path, mask = tmp_path / "unet.safetensors", tmp_path / "mask.npy"
    np.save(mask, MASK.numpy())
    if content is not None:
        path.write_bytes(content)
    code, _, messages = run_command(
        capsys, "evaluate", mask, heart_file(tmp_path / "hearts.npz"), "--network", path
    )
    assert code == 2
    assert sentence in messages
