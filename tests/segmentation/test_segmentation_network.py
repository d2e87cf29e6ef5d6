"""The network for images of any size and scale, and its file: nothing in it is executed, and nothing is lost."""

import json
import pickle

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from helpers import assert_global_random_state_is_untouched, seeded
from promask.errors import InputError
from promask.segmentation.classes import Classes
from promask.segmentation.network import KEY, Architecture, SegmentationNetwork, normalise, pad_to_multiple

CLASSES = Classes(("wall", "blood"), (1, 2))
RECORD = {"data": "scans", "test": {"dice": 0.5, "iou": None}, "history": {"loss": [2.0, 1.5]}}


def a_network(channels=1, classes=CLASSES, dimensions=2, widths=(4, 8, 16), seed=0):
    return SegmentationNetwork(Architecture(channels, classes, dimensions, widths), seed, RECORD).eval()


def images(*shape):
    return torch.rand(*shape, generator=seeded())


@pytest.fixture
def file(tmp_path):
    return a_network().save(tmp_path / "unet.safetensors")


@pytest.mark.parametrize("size", [(32, 32), (33, 47), (16, 9), (8, 8), (5, 3), (1, 1), (1, 40)])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_any_size(size, channels):
    network = a_network(channels)
    for mode in (True, False):
        logits = network.train(mode)(images(2, channels, *size))
        assert logits.shape == (2, 3, *size)
        assert logits.isfinite().all()


def test_volumes_and_overlapping_classes():
    network = a_network(2, Classes(("whole", "core"), (1, 2), overlapping=True), dimensions=3, widths=(2, 4))
    assert network(images(1, 2, 5, 6, 7)).shape == (1, 2, 5, 6, 7)


@pytest.mark.parametrize(("shape", "words"), [((2, 3, 16, 16), "have 3 and 2"), ((2, 1, 8, 8, 8), "have 1 and 3")])
def test_images_that_do_not_fit(shape, words):
    with pytest.raises(InputError, match=f"takes images of 1 channels and 2 axes, but these {words}"):
        a_network()(images(*shape))


@pytest.mark.parametrize("scale", [1e-8, 0.3, 4095, 1e8])
def test_the_scale_of_the_images_does_not_matter(scale):
    network, values = a_network(2), images(2, 2, 20, 24)
    expected = network(values)
    assert expected.std() > 0.01
    torch.testing.assert_close(network(scale * values), expected, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(network(values + 0.5), expected, rtol=1e-3, atol=1e-4)


def test_each_image_and_channel_has_a_scale_of_its_own():
    values = images(3, 2, 20, 24)
    scaled = values * torch.tensor([1.0, 50, 0.01]).reshape(3, 1, 1, 1) * torch.tensor([1.0, 7]).reshape(2, 1, 1)
    torch.testing.assert_close(normalise(scaled), normalise(values), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(normalise(values).mean((2, 3)), torch.zeros(3, 2), rtol=0, atol=1e-6)
    torch.testing.assert_close(normalise(values).std((2, 3), correction=0), torch.ones(3, 2))


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 4095.7, 1e-12])
def test_a_channel_of_one_value_is_no_image(value):
    values = torch.full((1, 1, 91, 83), value, requires_grad=True)
    result = normalise(values)
    assert result.abs().max() == 0
    (gradient,) = torch.autograd.grad(a_network()(values).sum(), values)
    assert gradient.isfinite().all()


def test_padding_repeats_the_last_values():
    result = pad_to_multiple(torch.tensor([[[[1.0, 2], [3, 4], [5, 6]]]]), 2)
    assert result[0, 0].tolist() == [[1, 2, 2, 2], [3, 4, 4, 4], [5, 6, 6, 6], [5, 6, 6, 6]]


def test_padding_adds_what_is_missing_alone():
    assert pad_to_multiple(images(1, 1, 16, 24), 4).shape == (1, 1, 16, 24)
    assert pad_to_multiple(images(1, 1, 17, 24), 4).shape == (1, 1, 20, 24)


def test_the_seed_makes_the_weights():
    states = [a_network(seed=seed).state_dict() for seed in (0, 0, 1)]
    weights = [torch.cat([tensor.flatten() for tensor in state.values()]) for state in states]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert_global_random_state_is_untouched(a_network)


def test_a_round_trip_keeps_everything(tmp_path, monkeypatch):
    monkeypatch.setattr(pickle, "Unpickler", None)
    network = a_network(2, Classes(("whole", "core"), (1, 4), overlapping=True), seed=3)
    path = network.save(tmp_path / "new folder" / "unet.safetensors")
    loaded = SegmentationNetwork.load(path)
    assert loaded.architecture == network.architecture
    assert loaded.record == network.record == RECORD
    assert not loaded.training
    assert list(loaded.state_dict()) == list(network.state_dict())
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor.view(torch.int32), loaded.state_dict()[name].view(torch.int32))
    values = images(1, 2, 19, 21)
    assert torch.equal(loaded(values), network(values))
    assert [found.name for found in path.parent.iterdir()] == ["unet.safetensors"]


def test_what_the_file_says(file):
    with safe_open(file, "pt") as opened:
        about = json.loads(opened.metadata()[KEY])
    assert about["architecture"] == {
        "channels": 1,
        "classes": {"names": ["wall", "blood"], "values": [1, 2], "overlapping": False},
        "dimensions": 2,
        "widths": [4, 8, 16],
        "residual_units": 2,
    }
    assert (about["normalisation"], about["record"]) == ("zscore", RECORD)


def test_a_record_that_is_not_json_leaves_the_file_alone(file):
    before = file.read_bytes()
    network = a_network()
    network.record["loss"] = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        network.save(file)
    assert file.read_bytes() == before
    assert [found.name for found in file.parent.iterdir()] == [file.name]


def refusal(path):
    with pytest.raises(InputError) as caught:
        SegmentationNetwork.load(path)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    assert text.endswith(".")
    return text


@pytest.mark.parametrize("length", [0, 5, 8, 100, 1000, -1])
def test_truncated_files(file, length):
    file.write_bytes(file.read_bytes()[:length])
    assert "is damaged or not a .safetensors file" in refusal(file)


def test_foreign_files(tmp_path):
    path = tmp_path / "a.safetensors"
    assert "is not a file: train a network with promask segment train" in refusal(path)
    assert "is not a file" in refusal(tmp_path)
    path.write_bytes(pickle.dumps({"weights": [1, 2, 3]}))
    assert "is damaged or not a .safetensors file" in refusal(path)
    torch.save({"weights": torch.ones(3)}, path)
    assert "is damaged or not a .safetensors file" in refusal(path)
    save_file({"weights": torch.ones(3)}, path)
    assert "no network of promask" in refusal(path)


def rewritten(file, change):
    """The same weights with another description."""
    with safe_open(file, "pt") as opened:
        about = json.loads(opened.metadata()[KEY])
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    text = change(about)
    save_file(tensors, file, {KEY: text if isinstance(text, str) else json.dumps(about)})
    return file


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", '{"format": 1}'])
def test_damaged_descriptions(file, text):
    assert "description" in refusal(rewritten(file, lambda about: text))


@pytest.mark.parametrize("change", [{"format": 2}, {"format": "1"}, {"normalisation": "percentiles"}])
def test_files_of_other_versions(file, change):
    assert "another version of promask" in refusal(rewritten(file, lambda about: about.update(change)))


@pytest.mark.parametrize(
    "change",
    [
        {"channels": 2},
        {"channels": "one"},
        {"channels": -1},
        {"dimensions": 3},
        {"dimensions": 7},
        {"widths": [4, 8]},
        {"widths": []},
        {"widths": [4, 8, 16.5]},
        {"widths": None},
        {"residual_units": 0},
        {"classes": {}},
        {"classes": {"names": ["wall"], "values": [1], "overlapping": False}},
        {"classes": {"names": [], "values": [], "overlapping": False}},
    ],
)
def test_descriptions_of_other_networks(file, change):
    assert "do not match" in refusal(rewritten(file, lambda about: about["architecture"].update(change)))


def test_missing_parts_of_the_description(file):
    assert "do not match" in refusal(rewritten(file, lambda about: about.pop("architecture") and None))
