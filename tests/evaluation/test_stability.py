"""Members against each other, and random masks against the mode: NumPy, closed forms and brute force."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from masks import PATTERNS, run_on

from helpers import assert_global_random_state_is_untouched, seeded, smooth_images
from promask import Config, MaskDistribution, Pattern, Run, evaluate
from promask.cli.main import main
from promask.data.arrays import from_images
from promask.data.sample_sets import ArraySet
from promask.errors import InputError
from promask.evaluation import stability as module
from promask.evaluation.images import reconstruct
from promask.evaluation.stability import agreement, pixel_spread, sentences, stability
from promask.figures.comparison import stability_figure
from promask.learning.records import RunHistory

IMAGES = smooth_images(5, dtype=torch.complex64)
DATA = from_images(IMAGES)
LOCATIONS = PATTERNS["locations"]


def run_with(probabilities, pattern, budget, variance=None, members=1):
    config = Config.preset("default", acceleration=pattern.units / budget, members=members)
    variance = torch.zeros(pattern.unit_shape) if variance is None else variance
    return Run(MaskDistribution(probabilities, pattern, budget), config, RunHistory(), variance)


def chequered(size=8, constant=3.0, alternating=1.0):
    """An image of two samples of k-space, positive with either or both: the constant one and one at (0, 0)."""
    sign = (-1.0) ** torch.arange(size)
    return constant + alternating * sign[:, None] * sign


@pytest.mark.parametrize("pixels", [1, 800, 2**20])
def test_the_spread_of_pixels_is_that_of_numpy(pixels, monkeypatch):
    """Whatever the size of the chunks, and for channels of different scales."""
    images = torch.cat([IMAGES, 5 * smooth_images(5, seed=1, dtype=torch.complex64)], 1)
    masks = run_on(LOCATIONS).sample(7, seed=2)
    monkeypatch.setattr(module, "PIXELS", pixels)
    counted = []
    found = torch.cat(list(pixel_spread(masks, ArraySet(images, "test"), counted.append)))
    acquired = np.fft.fftshift(np.fft.fft2(images.numpy()), (-2, -1)) * masks[:, None, None].numpy()
    filled = np.fft.ifft2(np.fft.ifftshift(acquired, (-2, -1)))
    expected = np.abs(filled).std(0, ddof=1) / np.abs(images.numpy()).max((1, 2, 3), keepdims=True)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-3, atol=1e-6)
    assert sum(counted) == 5 * 7
    assert max(counted) == {1: 1, 800: 2, 2**20: 5}[pixels]


def test_one_undecided_unit_has_a_closed_form():
    """z = a + m b (-1)^(x + y) with m = 1 at probability p: its variance is p (1 - p) b^2, in every pixel."""
    probabilities = torch.zeros(8, 8)
    probabilities[4, 4], probabilities[0, 0] = 1, 0.3
    run = run_with(probabilities, Pattern((8, 8), (0, 1)), budget=1)
    draws = 100
    result = stability(run, chequered(), draws=draws, seed=1)
    share = float(run.sample(draws, 1)[:, 0, 0].double().mean())
    assert share == pytest.approx(0.3, abs=0.1)
    variance = share * (1 - share) * draws / (draws - 1)
    assert result.drawn.pixel_std == pytest.approx(variance**0.5 / 4, rel=1e-5)
    assert result.differing == pytest.approx(0.3)
    assert result.exact.pixel_std == 0, "only one mask has one unit"
    summary = result.summary()
    assert summary["exact"]["psnr"] == summary["mode"]["psnr"]
    assert summary["exact"]["psnr_spread"] == 0
    bits = -(0.3 * np.log2(0.3) + 0.7 * np.log2(0.7))
    assert summary["entropy_bits"] == pytest.approx(bits, rel=1e-5)
    accelerations = np.where(run.sample(draws, 1)[:, 0, 0].numpy(), 32, 64)
    assert summary["drawn"]["acceleration"] == pytest.approx(accelerations.mean())
    assert summary["drawn"]["acceleration_spread"] == pytest.approx(accelerations.std(ddof=1))


@pytest.mark.parametrize("exact", [False, True])
def test_the_spread_of_pixels_against_all_masks(exact):
    """Four undecided units: sixteen masks, or the six of them that have two."""
    pattern = Pattern((6, 5), (0, 1))
    undecided = {(2, 2): 0.3, (3, 3): 0.6, (4, 1): 0.5, (1, 2): 0.8}
    probabilities = torch.zeros(6, 5)
    probabilities[3, 2] = 1
    for place, value in undecided.items():
        probabilities[place] = value
    data = ArraySet(smooth_images(2, size=(6, 5), dtype=torch.complex64), "test")
    images, weights = [], []
    for choice in itertools.product([False, True], repeat=4):
        if exact and sum(choice) != 2:
            continue
        mask = probabilities == 1
        for place, chosen in zip(undecided, choice, strict=True):
            mask[place] = chosen
        images.append(reconstruct(mask, data, range(2))[0].numpy())
        factors = [p if chosen else 1 - p for p, chosen in zip(undecided.values(), choice, strict=True)]
        weights.append(np.prod(factors))
    highest = data.images.abs().flatten(1).amax(1).numpy().reshape(-1, 1, 1, 1)
    relative = np.array(images, dtype=np.float64) / highest
    squares = (relative - np.average(relative, 0, weights)) ** 2
    variance = np.average(squares, 0, weights)
    error = np.sqrt((np.average(squares**2, 0, weights) - variance**2) / 1000)
    masks = run_with(probabilities, pattern, budget=3).sample(1000, seed=0, exact=exact)
    found = torch.cat(list(pixel_spread(masks, data))).numpy() ** 2
    assert (np.abs(found - variance) <= 4.5 * error + 1e-9).all()
    assert error.mean() < 0.1 * variance.mean(), "a test of some power"


def test_random_masks_of_the_budget_and_of_any_size():
    run = run_on(LOCATIONS)
    result = stability(run, DATA, draws=6, seed=3)
    budget = run.distribution.budget
    assert {evaluation.acceleration for evaluation in result.exact.evaluations} == {192 / budget}
    sizes = run.sample(6, seed=3).sum((1, 2)).tolist()
    assert len(set(sizes)) > 1
    assert [evaluation.acceleration for evaluation in result.drawn.evaluations] == [192 / size for size in sizes]
    for kind, exact in (("drawn", False), ("exact", True)):
        each = [evaluate(mask, DATA).summary() for mask in run.sample(6, seed=3, exact=exact)]
        summary = result.summary()[kind]
        for name in ("psnr", "ssim", "nmse"):
            assert summary[name] == pytest.approx(np.mean([one[name] for one in each]))
            assert summary[f"{name}_spread"] == pytest.approx(np.std([one[name] for one in each], ddof=1))
    mode = result.summary()["mode"]
    assert mode["psnr"] == evaluate(run.mask, DATA).summary()["psnr"]
    assert mode["psnr"] > result.summary()["exact"]["psnr"] + 0.5, "the mode is better on smooth images"
    assert "above random masks of its size" in "\n".join(sentences(result))


def test_masks_come_from_the_seed_alone():
    run = run_on(LOCATIONS)
    first = stability(run, DATA, draws=3, seed=1).summary()
    assert stability(run, DATA, draws=3, seed=1).summary() == first
    assert stability(run, DATA, draws=3, seed=2).summary()["drawn"] != first["drawn"]
    assert_global_random_state_is_untouched(lambda: stability(run, DATA, draws=2))


def test_what_is_shown_is_the_image_in_the_middle():
    run = run_on(LOCATIONS)
    result = stability(run, DATA, draws=4)
    masks = run.sample(4, 0, exact=True)
    data = ArraySet(IMAGES[2:3], "test")
    example = result.example
    assert torch.equal(example.random_mask, masks[0])
    for found, mask in ((example.mode, run.mask), (example.random, masks[0])):
        image, target = reconstruct(mask, data, range(1))
        assert torch.equal(found.image, image)
        assert torch.equal(found.target, target)
        assert found.psnr == evaluate(mask, DATA).psnr[2]
    assert torch.allclose(example.pixel_std, next(pixel_spread(masks, data))[0])


def test_progress_counts_every_reconstruction():
    told = []
    stability(run_on(LOCATIONS), DATA, draws=3, on_image=lambda *numbers: told.append(numbers))
    assert {total for _, total in told} == {5 * (1 + 4 * 3)}
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1][0] == told[-1][1]


CENTRES = {
    "locations": (slice(4, 12), slice(3, 9)),
    "columns": (slice(3, 9),),
    "odd": (slice(2, 6), slice(4, 11)),
    "padded lines": (slice(3, 9),),
}


@pytest.mark.parametrize("name", CENTRES)
def test_the_agreement_of_members(name):
    pattern = PATTERNS[name]
    members = torch.rand((3, *pattern.unit_shape), generator=seeded())
    members[:, pattern.padding()] = 0
    certain = torch.rand(pattern.unit_shape, generator=seeded(1)) < 0.4
    members[:, certain] = 0.0
    variance = members.var(0, correction=0)
    found = agreement(run_with(members.mean(0), pattern, 1, variance, members=3))
    assert found.members == 3
    inside = np.zeros(pattern.unit_shape, bool)
    inside[CENTRES[name]] = True
    outside = ~inside
    if name == "padded lines":
        outside[:2] = outside[11:] = False
    values = members.double().numpy().var(0)
    for region, where in ((found.centre, inside), (found.rest, outside), (found.everywhere, inside | outside)):
        assert region.units == where.sum()
        assert region.mean_variance == pytest.approx(values[where].mean(), rel=1e-5)
        assert region.mean_std == pytest.approx(np.sqrt(values[where]).mean(), rel=1e-5)
        assert region.agreed == pytest.approx((np.sqrt(values[where]) <= 0.01).mean())


def test_one_member_says_so():
    run = run_on(LOCATIONS)
    assert agreement(run) is None
    result = stability(run, DATA, draws=2)
    assert result.summary()["agreement"] is None
    assert "learn several (members=10)" in list(sentences(result))[-1]


@pytest.mark.parametrize(("value", "words"), [(0.999999, "hardly differ from the mode"), (0.6, "leave a choice")])
def test_the_text_tells_whether_there_is_a_choice(value, words):
    probabilities = LOCATIONS.largest(-LOCATIONS.distance(), 40).float() * value
    text = "\n".join(sentences(stability(run_with(probabilities, LOCATIONS, 40), DATA, draws=2)))
    assert words in text
    assert f"in {40 * (1 - value):.1f} of 192 samples" in text
    assert "as good as random masks of its size" in text, "only the mode has forty units"


def test_masks_that_acquire_nothing_are_left_out():
    lines = Pattern((16, 12), (1,))
    run = run_with(torch.full((12,), 0.06), lines, budget=1)
    filled = int(run.sample(10, 0).flatten(1).any(1).sum())
    assert 2 <= filled < 10
    result = stability(run, DATA, draws=10)
    assert result.summary()["drawn"]["masks"] == filled
    assert f"{10 - filled} of the 10 drawn masks acquired nothing" in "\n".join(sentences(result))
    with pytest.raises(InputError, match="only 0 acquire anything"):
        stability(run_with(torch.full((12,), 1e-9), lines, budget=1), DATA)


def test_volumes_too_small_for_ssim():
    run = run_on(PATTERNS["volume"])
    volumes = smooth_images(2, size=(6, 7, 5), dtype=torch.complex64)
    result = stability(run, from_images(volumes, volumes=True), draws=3)
    assert result.summary()["exact"]["ssim"] is result.summary()["exact"]["ssim_spread"] is None
    assert result.summary()["exact"]["psnr_spread"] > 0
    json.dumps(result.summary(), allow_nan=False)
    figure = stability_figure(result)
    assert figure.axes[0].get_xlabel() == "the plane through the centre"
    shown = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(shown, volumes[1, 0, 3].abs().numpy(), rtol=1e-6)


def test_the_figure_shows_members_if_there_are_several():
    variance = torch.rand((16, 12), generator=seeded()) / 4
    run = run_on(LOCATIONS)
    several = run_with(run.probabilities, LOCATIONS, run.distribution.budget, variance, members=4)
    last = stability_figure(stability(several, DATA, draws=2)).axes[7]
    assert last.get_title() == "Probabilities over 4 members"
    np.testing.assert_allclose(last.images[0].get_array(), variance.sqrt().numpy())
    assert not stability_figure(stability(run, DATA, draws=2)).axes[7].images


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draws": 1}, "At least 2 random masks are needed to see how they differ, but draws is 1"),
        ({"seed": -1}, "The seed must be"),
        ({"part": "some"}, "Unknown part 'some'"),
        ({"convention": "best"}, "convention"),
        (
            {"data": torch.rand(2, 9, 8)},
            r"shape \[16, 12\], but .* shape \[9, 8\]: .* `size` 16 12",
        ),
    ],
)
def test_bad_input(changes, message):
    with pytest.raises(InputError, match=message):
        stability(run_on(LOCATIONS), **{"data": DATA, **changes})


@pytest.fixture
def promask(capsys, undrawn, few_references, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    np.savez("patients.npz", image=IMAGES.abs().numpy(), subject=list("abcde"))

    def call(*arguments, status=0):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert stop.value.code == status, captured.err
        sentences = [line for line in captured.err.splitlines(True) if "promask: images: " not in line]
        assert len(sentences) == (1 if status else 0)
        return sentences[0] if status else captured.out

    return call


LEARN = ("learn", "patients.npz", "--accel", 4, "--out", "a", "--steps", 4, "--init", "uniform")


def test_the_command(promask):
    promask(*LEARN, "--members", 2)
    summary = json.loads(promask("stability", "a", "patients.npz", "--draws", 3, "--seed", 5, "--json"))
    held_out = json.loads(promask("evaluate", "a", "patients.npz", "--json"))
    assert (summary["run"], summary["data"]) == ("a", "patients.npz")
    assert summary["read"] == held_out["data"], "the same images"
    assert (summary["part"], summary["images"], summary["draws"], summary["seed"]) == ("test", 1, 3, 5)
    assert summary["mode"]["psnr"] == held_out["psnr"]
    assert summary["agreement"]["members"] == 2
    assert summary["exact"]["masks"] == 3
    assert {"psnr", "psnr_spread", "acceleration", "acceleration_spread", "pixel_std"} <= set(summary["drawn"])
    assert summary["exact"]["acceleration"] == 4
    assert json.loads(Path("a/stability.json").read_text()) == summary
    assert Path("a/figures/stability.png").read_bytes().startswith(b"\x89PNG")
    everything = json.loads(
        promask("stability", "a", "patients.npz", "--draws", 2, "--part", "all", "--json", "--out", "elsewhere")
    )
    assert everything["images"] == 5
    assert json.loads(Path("elsewhere/stability.json").read_text()) == everything
    assert Path("elsewhere/figures/stability.png").is_file()
    assert json.loads(Path("a/stability.json").read_text()) == summary, "the run is left alone"


def test_the_text_of_the_command(promask):
    promask(*LEARN)
    text = promask("stability", "a", "patients.npz", "--draws", 2)
    assert [line.split()[0] for line in text.splitlines()[:4]] == ["mask", "mode", "drawn", "exact"]
    assert "1 sample of patients.npz (test)" in text
    assert "bits" in text
    assert "members=10" in text
    assert "Written: a/stability.json, a/figures/stability.png" in text


def test_a_run_that_was_looked_at_can_be_replaced(promask):
    promask(*LEARN)
    promask("stability", "a", "patients.npz", "--draws", 2)
    promask(*LEARN, "--overwrite")
    assert not Path("a/stability.json").exists(), "it was that of another run"


def test_bad_input_is_one_sentence(promask):
    np.save("other.npy", np.random.default_rng(0).random((2, 9, 8)))
    assert "patients.npz is not a run" in promask("stability", "patients.npz", "other.npy", status=2)
    promask(*LEARN)
    assert "crop or pad them with --size 16 12" in promask("stability", "a", "other.npy", status=2)
    assert "but draws is 1" in promask("stability", "a", "patients.npz", "--draws", 1, status=2)
    assert not Path("a/stability.json").exists()
    assert json.loads(promask("stability", "a", "other.npy", "--size", 16, 12, "--draws", 2, "--json"))


def test_a_place_that_cannot_be_written_to_is_found_before_the_work(promask, monkeypatch):
    promask(*LEARN)
    Path("file").write_text("")
    monkeypatch.setattr("promask.evaluation.stability.evaluate", lambda *_, **__: pytest.fail("too late"))
    assert "Cannot write to" in promask("stability", "a", "patients.npz", "--out", "file", status=2)
    Path("taken").mkdir()
    Path("taken/figures").write_text("")
    assert "Cannot write to" in promask("stability", "a", "patients.npz", "--out", "taken", status=2)
