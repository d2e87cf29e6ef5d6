"""Checkpoints: what is learned after them is what would have been learned without an interruption."""

import json
import warnings

import numpy as np
import pytest
import torch
from comparisons import heart_file, heart_network
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import FEW, GRADIENTS

from helpers import smooth_images
from promask.data.arrays import from_images
from promask.errors import InputError, InputWarning
from promask.learning import checkpoint
from promask.learning.api import learn
from promask.learning.checkpoint import (
    DamagedStateError,
    OtherFormatError,
    before,
    checkpoint_file,
    packed,
    unpacked,
)

TENSOR = smooth_images(count=6, channels=1, size=(12, 10)).to(torch.complex64)
IMAGES = from_images(TENSOR)
STATE = {
    "step": 3,
    "name": "x",
    "nothing": None,
    "share": 0.1,
    "tensors": [torch.arange(6.0).reshape(2, 3), torch.tensor(True), torch.zeros(0), torch.tensor(2**60)],
}


class Stop(BaseException):
    """As a signal would, it passes by whatever catches errors."""


@pytest.fixture(autouse=True, scope="module")
def after_every_step():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "SHARE", 1e9)
        yield


def same(one, other):
    assert torch.equal(one.probabilities, other.probabilities)
    assert torch.equal(one.variance, other.variance)
    assert torch.equal(one.mask, other.mask)
    assert one.history == other.history
    assert one.trajectory.steps == other.trajectory.steps
    assert torch.equal(one.trajectory.probabilities, other.trajectory.probabilities)


def stopping(step, member=0):
    def on_step(progress):
        if (progress.member, progress.step) == (member, step):
            raise Stop

    return on_step


def interrupted(folder, step, *arguments, member=0, **settings):
    with pytest.raises(Stop):
        learn(*arguments, checkpoint=folder, on_step=stopping(step, member), **settings)


# The same bits


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 30},
        {"steps": 30, "patience": 2, "init": "uniform", "batch_size": 4, "samples": 3},
        {"preset": "paper", "steps": 20, "members": 1},
        {"preset": "paper", "steps": 20, "members": 3, "annealing": "linear"},
        {"steps": 12, "loss": "ssim", "pattern": "1d", "centre": 2},
    ],
    ids=str,
)
def test_a_run_goes_on_as_if_nothing_had_happened(settings, tmp_path):
    whole = learn(IMAGES, 4, **settings)
    last = settings.get("members", 1) - 1
    for step in (2, 7):
        folder = tmp_path / str(step)
        interrupted(folder, step, IMAGES, 4, member=last, **settings)
        resumed = learn(IMAGES, 4, checkpoint=folder, resume=True, **settings)
        assert resumed.record.checkpoints.resumed == tuple(range(settings.get("members", 1)))
        same(resumed, whole)


def test_a_run_by_exchange_goes_on(tmp_path):
    settings = {"recon": "cg-sense", "coils": 2, "steps": 8, "batch_size": 3, "axes": "slice coil y x"}
    whole = learn(TENSOR, 3, **settings)
    interrupted(tmp_path, 5, TENSOR, 3, **settings)
    same(learn(TENSOR, 3, checkpoint=tmp_path, resume=True, **settings), whole)


@pytest.mark.parametrize("settings", [FEW, GRADIENTS["response"] | {"steps": 4}], ids=["race", "steps"])
def test_a_network_that_is_trained_on_goes_on(settings, tmp_path):
    data = heart_file(tmp_path / "hearts.npz")
    settings = {"network": heart_network(), "finetune": True, "network_rate": 0.01, **settings}
    whole = learn(data, 4, **settings)
    interrupted(tmp_path, 2, data, 4, **settings)
    resumed = learn(data, 4, checkpoint=tmp_path, resume=True, **settings)
    same(resumed, whole)
    assert (resumed.network is None) == (whole.network is None)
    if whole.network is not None:
        for ours, theirs in zip(resumed.network.parameters(), whole.network.parameters(), strict=True):
            assert torch.equal(ours, theirs)


def test_a_run_that_was_interrupted_again_and_again(tmp_path):
    whole = learn(IMAGES, 4, steps=12, patience=0)
    for step in range(1, 13):
        interrupted(tmp_path, step, IMAGES, 4, steps=12, patience=0, resume=True)
    same(learn(IMAGES, 4, steps=12, patience=0, checkpoint=tmp_path, resume=True), whole)


def test_without_a_checkpoint_it_begins(tmp_path):
    resumed = learn(IMAGES, 4, steps=5, checkpoint=tmp_path / "run", resume=True)
    same(resumed, learn(IMAGES, 4, steps=5))
    assert resumed.record.checkpoints.resumed == ()


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert learn(IMAGES, 4, steps=5).record.checkpoints.written == 0
    assert not list(tmp_path.iterdir())


def test_a_state_is_not_changed_by_what_comes_later(tmp_path, monkeypatch):
    """What is written when something goes wrong is the state after the last whole step."""
    monkeypatch.setattr(checkpoint, "SHARE", 0.0)  # only then

    calls = []

    def loss(images, targets):
        calls.append(None)
        if len(calls) == 8:
            raise Stop
        return (images - targets).square().mean()

    loss.__name__ = "mse"
    with pytest.raises(Stop):
        learn(IMAGES, 4, loss=loss, steps=30, patience=0, checkpoint=tmp_path)
    assert checkpoint_file(tmp_path, 0).exists()
    whole = learn(IMAGES, 4, steps=30, patience=0, loss=loss)
    same(learn(IMAGES, 4, steps=30, patience=0, loss=loss, checkpoint=tmp_path, resume=True), whole)


def test_arrays_of_a_run_have_no_checkpoint_beside_them(tmp_path):
    """A finished run takes the place of everything that was on the way."""
    run = learn(IMAGES, 4, steps=8, checkpoint=tmp_path / "run")
    assert run.record.checkpoints.written == 8
    run.save(tmp_path / "run")
    assert not list((tmp_path / "run").glob("checkpoint*"))
    assert np.load(tmp_path / "run" / "mask.npy").sum() == 30


# Damage


def truncated(content):
    return content[: len(content) // 2]


def flipped(content):
    place = len(content) * 3 // 4
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize("damage", [truncated, flipped, lambda content: b""], ids=["cut", "a bit", "empty"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(damage, tmp_path):
    whole = learn(IMAGES, 4, steps=20, patience=0)
    interrupted(tmp_path, 9, IMAGES, 4, steps=20, patience=0)
    newest = checkpoint_file(tmp_path, 0)
    assert len(unpacked(newest.read_bytes())["member"]["history"]["values"][0]) == 8
    newest.write_bytes(damage(newest.read_bytes()))
    steps = []
    with pytest.warns(
        InputWarning, match=r"checkpoint\.safetensors is damaged .*: learning goes on from before it"
    ):
        resumed = learn(
            IMAGES,
            4,
            steps=20,
            patience=0,
            checkpoint=tmp_path,
            resume=True,
            on_step=lambda progress: steps.append(progress.step),
        )
    assert steps[0] == 8, "the one before had seven"
    same(resumed, whole)


def test_where_both_are_damaged_it_begins_anew(tmp_path):
    interrupted(tmp_path, 9, IMAGES, 4, steps=20, patience=0)
    for path in (checkpoint_file(tmp_path, 0), before(checkpoint_file(tmp_path, 0))):
        path.write_bytes(truncated(path.read_bytes()))
    with pytest.warns(InputWarning) as said:
        resumed = learn(IMAGES, 4, steps=20, patience=0, checkpoint=tmp_path, resume=True)
    assert len(said) == 2
    same(resumed, learn(IMAGES, 4, steps=20, patience=0))


def test_only_the_one_before_is_there(tmp_path):
    """As after a kill between the two renames."""
    interrupted(tmp_path, 9, IMAGES, 4, steps=20, patience=0)
    checkpoint_file(tmp_path, 0).unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resumed = learn(IMAGES, 4, steps=20, patience=0, checkpoint=tmp_path, resume=True)
    same(resumed, learn(IMAGES, 4, steps=20, patience=0))


@pytest.mark.parametrize(
    ("data", "settings", "sentence"),
    [
        (IMAGES, {"steps": 21}, "is of a run with steps 20 and not 21"),
        (IMAGES, {"seed": 1}, "is of a run with seed 0 and not 1"),
        (from_images(TENSOR[:5]), {}, "is of a run with images 6 and not 5"),
        (IMAGES, {"samples": 3}, "is of a run with samples 1 and not 3"),
        (IMAGES, {"learner": "gumbel-adam"}, "is of a run with learner 'best-response' and not 'gumbel-adam'"),
        (from_images(TENSOR.flip(0, 2)), {}, "is of a run on other data"),
    ],
)
def test_another_run_is_refused(data, settings, sentence, tmp_path):
    settings = {"steps": 20, "patience": 0, **settings}
    interrupted(tmp_path, 3, IMAGES, 4, steps=20, patience=0)
    kept = checkpoint_file(tmp_path, 0).read_bytes()
    with pytest.raises(InputError, match=sentence):
        learn(data, 4, checkpoint=tmp_path, resume=True, **settings)
    assert checkpoint_file(tmp_path, 0).read_bytes() == kept


def test_another_version_is_refused(tmp_path, monkeypatch):
    interrupted(tmp_path, 3, IMAGES, 4, steps=20)
    monkeypatch.setattr("promask.learning.checkpoint.FORMAT", "promask.state.2")
    with pytest.raises(InputError, match=r"another version of promask \(promask.state.1\): leave out `resume`"):
        learn(IMAGES, 4, steps=20, checkpoint=tmp_path, resume=True)


@pytest.mark.parametrize("place", ["theta", "memory", "history"])
@pytest.mark.parametrize("nonsense", [None, 3, "x", [], {}, torch.zeros(3)], ids=str)
def test_a_state_that_is_whole_but_nonsense_is_refused(place, nonsense, tmp_path):
    interrupted(tmp_path, 3, IMAGES, 4, steps=20)
    path = checkpoint_file(tmp_path, 0)
    state = unpacked(path.read_bytes())
    state["member"][place] = nonsense
    path.write_bytes(packed(state))
    with pytest.raises(InputError, match="does not fit this run"):
        learn(IMAGES, 4, steps=20, checkpoint=tmp_path, resume=True)


# States as bytes


def test_a_state_comes_back():
    found = unpacked(packed(STATE))
    for ours, theirs in zip(found.pop("tensors"), STATE["tensors"], strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)
    assert found == {name: value for name, value in STATE.items() if name != "tensors"}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_damage_goes_unnoticed(data):
    """Any change of a byte, any cut, and anything appended is noticed; nothing else is raised."""
    whole = packed(STATE)
    place = data.draw(st.integers(0, len(whole) - 1))
    kind = data.draw(st.sampled_from(["change", "cut", "append"]))
    if kind == "change":
        changed = bytearray(whole)
        changed[place] ^= data.draw(st.integers(1, 255))
    else:
        changed = whole[:place] if kind == "cut" else whole + data.draw(st.binary(min_size=1, max_size=9))
    try:
        found = unpacked(bytes(changed))
    except (DamagedStateError, OtherFormatError):
        return
    # JSON allows for spaces, which change nothing.
    assert str(found) == str(unpacked(whole))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_other_bytes_are_no_state(content):
    with pytest.raises(DamagedStateError):
        unpacked(content)


def test_depth_is_no_way_in():
    text = '{"a":' * 100_000 + "1" + "}" * 100_000
    header = json.dumps({"__metadata__": {"format": "promask.state.1", "state": text, "sha256": ""}}).encode()
    with pytest.raises(DamagedStateError):
        unpacked(len(header).to_bytes(8, "little") + header)
