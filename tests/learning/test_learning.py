"""What a user of `learn` may count on."""

import threading

import numpy as np
import pytest
import torch
from problems import optimised

from helpers import assert_global_random_state_is_untouched, samples_of, seeded, smooth_images
from promask import learn
from promask.data.arrays import from_images
from promask.data.reading import Reading
from promask.data.sample_sets import ArraySet
from promask.data.sources import load
from promask.errors import InputError
from promask.evaluation.evaluate import evaluate
from promask.learning.config import Config
from promask.learning.run import Run
from promask.losses.image import ImageLoss
from promask.operators.fourier import centred, fft_order, to_image, to_kspace
from promask.problem.batches import SpectraSet, index_batches
from promask.problem.objective import loss_and_slopes
from promask.problem.problem import starting_probabilities
from promask.sampling.pattern import Pattern
from promask.types import Geometry


def test_the_same_seed_gives_the_same_bits():
    images = smooth_images(5, size=(16, 16), dtype=torch.complex64)
    first, again, other = (learn(from_images(images), 4, steps=30, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.probabilities, again.probabilities)
    assert first.history == again.history
    assert not torch.equal(first.probabilities, other.probabilities)


def test_the_global_random_state_is_left_alone():
    images = smooth_images(5, size=(16, 16), dtype=torch.complex64)
    assert_global_random_state_is_untouched(lambda: learn(from_images(images), 4, steps=3))


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("acceleration", [1, 2.7, 8, 256])
@pytest.mark.parametrize("pattern", ["1d", "2d"])
def test_the_budget_is_kept_exactly(preset, acceleration, pattern):
    if pattern == "1d":
        acceleration = min(acceleration, 16)
    images = smooth_images(3, size=(16, 16), dtype=torch.complex64)
    run = learn(from_images(images), acceleration, preset=preset, steps=20, members=2, pattern=pattern)
    budget = int((256 if pattern == "2d" else 16) / acceleration)
    assert run.distribution.budget == budget
    assert run.probabilities.double().sum() <= budget
    assert run.probabilities.min() >= 0
    assert run.probabilities.max() <= 1
    assert run.distribution.pattern.restrict(run.mask).sum() == budget
    assert run.history.budget[-1] == budget


def test_a_single_image_is_a_data_set_of_one():
    image = smooth_images(1, size=(16, 12), dtype=torch.complex64)
    alone, stacked = learn(from_images(image[0, 0]), 4, steps=20), learn(from_images(image), 4, steps=20)
    assert torch.equal(alone.probabilities, stacked.probabilities)


def test_channels_share_one_mask():
    images = smooth_images(4, channels=3, size=(16, 12), dtype=torch.complex64)
    assert learn(from_images(images), 4, steps=10).mask.shape == (16, 12)


@pytest.mark.parametrize("axis", [(0, 1, 2), (0, 2), (1,)])
def test_volumes(axis):
    volumes = smooth_images(2, size=(6, 8, 10), dtype=torch.complex64)
    run = learn(from_images(volumes, volumes=True), 2, steps=10, volumes=True, pattern=f"{len(axis)}d", axis=axis)
    assert run.mask.shape == (6, 8, 10)
    run.distribution.pattern.restrict(run.mask)


def test_a_given_start_is_used():
    """Without a step worth the name, the mode is that of the start."""
    images = smooth_images(2, size=(8, 6), dtype=torch.complex64)
    start = torch.rand(8, 6, generator=seeded())
    run = learn(from_images(images), 4, preset="paper", members=1, init=start, steps=1, learning_rate=1e-9)
    assert set(start[run.mask].tolist()) == set(start.flatten().topk(12).values.tolist())


def test_the_centre_is_always_acquired_and_counted():
    """Noise without a preferred place, so that nothing but the request keeps the centre."""
    images = torch.randn(3, 1, 16, 12, generator=seeded(), dtype=torch.complex64)
    for preset in ("default", "paper"):
        run = learn(from_images(images), 4, preset=preset, steps=12, members=2, centre=4)
        assert run.mask[6:10, 4:8].all()
        assert (run.probabilities[6:10, 4:8] == 1).all()
        assert run.mask.sum() == 48
        assert run.probabilities.double().sum() <= 48
    lines = learn(from_images(images), 4, pattern="1d", steps=5, centre=3)
    assert lines.mask[:, 5:8].all()
    assert lines.mask.sum() == 3 * 16
    assert not learn(from_images(images), 4, steps=12).mask[6:10, 4:8].all()


@pytest.mark.parametrize("init", ["uniform", "energy"])
def test_named_starts(init):
    """Members draw masks of their own, and a start from the energy has its largest value at the centre."""
    images = smooth_images(4, dtype=torch.complex64)
    first = []
    learn(
        from_images(images), 4, init=init, members=2, steps=1, on_step=lambda progress: first.append(progress.loss)
    )
    assert first[0] != first[1]
    start = starting_probabilities(init, samples_of(images), Pattern((16, 12), (0, 1))).draw(seeded())
    assert start.min() >= 0
    assert start.max() <= 1
    assert start.mean() == pytest.approx(0.5, abs=0.05)
    if init == "energy":
        assert start[0, 0] == start.max(), "the centre of k-space, in FFT order"


def test_all_starts_end_on_the_same_side_of_k_space():
    """Real images have conjugate twins; of those that are not both acquired, all should lie in one half."""
    images = load("brain").images[::8, :, ::2, ::2]
    pattern = Pattern(tuple(images.shape[2:]), (0, 1))
    half = fft_order(pattern.half(), 2)
    errors = []
    for init in ("energy", "uniform"):
        mask = learn(from_images(images), 6, init=init).mask
        chosen = fft_order(mask, 2)
        alone = chosen & ~chosen.flip((0, 1)).roll((1, 1), (0, 1))
        assert alone.sum() > 0.1 * chosen.sum()
        assert (half[alone] > 0).float().mean() > 0.95
        errors.append(evaluate(mask, from_images(images)).summary()["nmse"])
    assert errors[0] == pytest.approx(errors[1], rel=0.01)


def test_learning_stops_when_the_mode_no_longer_changes():
    images = smooth_images(4, dtype=torch.complex64)
    run = learn(from_images(images), 4, pattern="1d", members=2)
    assert all(stopped is not None and stopped % 10 == 0 and stopped < 100 for stopped in run.history.stopped)
    assert len(run.history.loss) == max(run.history.stopped)
    assert [len(losses) for losses in run.history.member_loss] == run.history.stopped
    patient = learn(from_images(images), 4, pattern="1d", patience=0)
    assert patient.history.stopped == [None]
    assert len(patient.history.loss) == 100


def test_any_callable_loss():
    images = smooth_images(2, size=(16, 12), dtype=torch.complex64)
    seen = []

    def charbonnier(image, target):
        seen.append((image.shape, target.shape))
        return ((image - target).square() + 1e-6).sqrt().mean()

    run = learn(from_images(images), 4, loss=charbonnier, steps=5, samples=3)
    assert seen[:5] == [((48, 1, 16, 12),) * 2] * 5
    assert run.config.loss == "charbonnier"


def test_labels_and_datasets_of_torch():
    class Slices(torch.utils.data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return smooth_images(3, size=(8, 8), phase=False)[index], torch.zeros(8, 8, dtype=torch.int64)

    assert learn(Slices(), 4, steps=3).mask.sum() == 16


def test_held_out_subjects_are_never_seen():
    images = smooth_images(10, size=(8, 8), phase=False).float()
    data = from_images(images, subjects=[f"patient-{index // 2}" for index in range(10)])
    seen = set()

    def spy(image, target):
        seen.update(target.flatten(1).sum(1).tolist())
        return (image - target).square().mean()

    for part, expected in ((None, 8), ("train", 8), ("test", 2), ("all", 10)):
        seen.clear()
        run = learn(data, 4, loss=spy, steps=30, part=part)
        assert len(seen) == run.record.data.images == expected


def test_numpys_numbers_and_no_start_are_fine():
    images = smooth_images(2, dtype=torch.complex64)
    run = learn(from_images(images), np.float64(4), steps=np.int64(2), seed=np.int64(3), init=None)
    assert torch.equal(run.mask, learn(from_images(images), 4, steps=2, seed=3).mask)
    assert Config.preset("default", acceleration=np.float32(4)).acceleration == 4
    assert Config.preset("default", acceleration=4, axis=np.array([0, 1])).axis == (0, 1)


# Batches


@pytest.mark.parametrize(("count", "batch_size"), [(10, 3), (9, 3), (1, 1), (7, 7)])
def test_batches_are_drawn_without_replacement(count, batch_size):
    rounds = count // batch_size
    stream = index_batches(count, batch_size, seeded())
    for _ in range(20):
        indices = torch.cat([next(stream) for _ in range(rounds)])
        assert len(indices) == rounds * batch_size == len(set(indices.tolist()))
        assert indices.max() < count


@pytest.mark.parametrize(("count", "batch_size"), [(2, 5), (1, 4), (3, 9)])
def test_a_small_set_fills_the_batch(count, batch_size):
    batch = next(index_batches(count, batch_size, seeded()))
    assert len(batch) == batch_size
    used = torch.bincount(batch, minlength=count)
    assert used.max() - used.min() <= 1


def test_all_images_are_used_equally_often():
    stream = index_batches(7, 3, seeded())
    used = torch.bincount(torch.cat([next(stream) for _ in range(7000)]), minlength=7)
    assert (used - 3000).abs().max() < 150


# Members


def test_members_are_independent_runs():
    """Each member of an ensemble is the run that its number alone gives: nothing is handed on."""
    images = smooth_images(4, size=(12, 10), dtype=torch.complex64)
    config = Config.preset("default", acceleration=4, steps=15, members=3)
    pattern = Pattern((12, 10), (0, 1))

    def start(generator):
        return torch.rand(12, 10, generator=generator)

    alone = [
        centred(optimised(samples_of(images), pattern, ImageLoss("mse"), config, start, member)[0], 2)
        for member in (2, 0, 1)
    ]
    run = learn(from_images(images), 4, steps=15, members=3, init="uniform")
    stacked = torch.stack(alone).double()
    torch.testing.assert_close(run.probabilities, stacked.mean(0).float(), atol=1e-6, rtol=0)
    torch.testing.assert_close(run.variance, stacked.var(0, correction=0).float(), atol=1e-6, rtol=0)
    assert run.variance.max() > 0.01, "members that start apart must differ"
    assert len(run.history.member_loss) == 3
    assert len({tuple(losses) for losses in run.history.member_loss}) == 3


def test_members_differ_in_their_batches_and_their_noise():
    """From one start, with one image to choose from or with full masks, so that only the other is random."""
    images = smooth_images(20, size=(12, 10), dtype=torch.complex64)
    start = torch.full((12, 10), 0.5)
    by_noise = learn(from_images(images[:1]), 4, steps=1, batch_size=2, members=3, init=start)
    assert len({losses[0] for losses in by_noise.history.member_loss}) == 3
    seen = []

    def spy(image, target):
        seen.append(target[:, 0, 0, 0].tolist())
        return (image - target).square().mean()

    learn(from_images(images), 4, steps=1, batch_size=3, members=3, init=start, loss=spy)
    assert len({tuple(values) for values in seen[:3]}) == 3


def test_every_member_starts_from_the_given_probabilities():
    start = torch.rand(16, 12, generator=seeded()) * 0.3
    images = smooth_images(2, dtype=torch.complex64)
    run = learn(from_images(images), 2, preset="paper", steps=1, members=3, init=start, learning_rate=1e-9)
    torch.testing.assert_close(run.probabilities, start)


def test_a_single_member_has_no_variance():
    assert learn(from_images(smooth_images(2, dtype=torch.complex64)), 4, steps=3).variance.max() == 0


# Refusals


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "`steps` must be a whole number of at least 1, but is 0"),
        ({"steps": 2.5}, "`steps` must be"),
        ({"steps": True}, "`steps` must be"),
        ({"acceleration": 0.5}, "`acceleration` must be a number of at least 1, but is 0.5"),
        ({"acceleration": float("nan")}, "`acceleration` must be"),
        ({"acceleration": 10_000}, "from 1 to 192, the number of samples or lines"),
        ({"preset": "best"}, "Unknown preset 'best'"),
        ({"stepz": 3}, "Unknown argument `stepz`: did you mean `steps`"),
        ({"annealing": "slow"}, "`annealing` must be cubic or linear or none"),
        ({"exploration": 0.7, "exploitation": 0.7}, "add up to more than 1"),
        ({"batch_size": 1}, "`batch_size` times `samples` must be at least 2"),
        ({"device": "abacus"}, "device 'abacus' cannot be used"),
        ({"init": torch.full((16, 12), 2.0)}, "from 0 to 1"),
        ({"init": torch.full((16, 12), float("nan"))}, "from 0 to 1"),
        ({"init": torch.full((3, 3), 0.5)}, r"shape \[3, 3\], but the units have shape \[16, 12\]"),
        ({"init": "nowhere.npy"}, "is not 'uniform', 'energy', a file of probabilities or a run folder"),
        ({"device": "meta"}, "device 'meta' cannot be used"),
        ({"steps": 10**400}, "`steps` must be a whole number"),
        ({"acceleration": 10**400}, "`acceleration` must be"),
        ({"part": "half"}, "Unknown part 'half'"),
        ({"pattern": "2d", "axis": (0, 2)}, "do not fit"),
        ({"seed": -1}, "`seed` must be"),
        ({"centre": 20}, "`centre` of width 20 has 192 samples or lines, but only 48 are acquired"),
        ({"centre": -1}, "`centre` must be a whole number of at least 0"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        learn(from_images(smooth_images(2, dtype=torch.complex64)), **({"acceleration": 4, "steps": 2} | settings))


def test_a_loss_that_breaks_down_stops_the_run():
    with pytest.raises(FloatingPointError, match="The loss became nan at step 1"):
        learn(
            from_images(smooth_images(2, dtype=torch.complex64)),
            4,
            loss=lambda x, y: (x - y).mean() * float("nan"),
        )


# Padding and the judged part of the image


def padded_data(count=6):
    """Columns 2 and 3 and the last one were never measured; the middle 10 x 8 pixels are looked at."""
    kspace = to_kspace(smooth_images(count, size=(16, 14), dtype=torch.complex64), (-2, -1))
    kspace[..., :2] = kspace[..., 13:] = 0
    geometry = Geometry(extent=((0, 16), (2, 13)), region=(10, 8))
    return ArraySet(to_image(kspace, (-2, -1)), "padded", geometry=geometry)


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("pattern", ["1d", "2d"])
def test_padding_is_left_out_of_the_budget(preset, pattern, tmp_path):
    run = learn(padded_data(), 3, preset=preset, pattern=pattern, steps=8, members=2, init="uniform")
    units = 11 if pattern == "1d" else 11 * 16
    assert run.distribution.pattern.units == units
    assert run.distribution.budget == units // 3
    assert run.acceleration == units / (units // 3)
    assert run.probabilities.sum() <= units // 3 + 1e-4
    assert not run.mask[:, :2].any()
    assert not run.mask[:, 13:].any()
    assert evaluate(run.mask, padded_data()).acceleration == pytest.approx(run.acceleration)
    again = Run.load(run.save(tmp_path / "run"))
    assert again.distribution.pattern == run.distribution.pattern
    assert torch.equal(again.mask, run.mask)


def test_only_the_middle_of_the_image_is_judged():
    """The loss and the metrics are those of the cut-out, computed by hand."""
    data = padded_data()
    mask = torch.rand(16, 14, generator=seeded()) < 0.5
    kspace = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(data.images[:, 0].numpy(), (1, 2))), (1, 2))
    images = np.abs(np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(kspace * mask.numpy(), (1, 2))), (1, 2)))
    target = np.abs(data.images[:, 0].numpy())[:, 3:13, 3:11]
    low, high = target.min((1, 2), keepdims=True), target.max((1, 2), keepdims=True)
    error = np.clip((images[:, 3:13, 3:11] - low) / (high - low), 0, 1) - (target - low) / (high - low)
    np.testing.assert_allclose(evaluate(mask, data).psnr, -10 * np.log10((error**2).mean((1, 2))), rtol=1e-4)
    (batch,) = SpectraSet(data, torch.device("cpu")).pieces(torch.arange(6))
    units = fft_order(mask, 2).float().expand(6, 16, 14)
    loss = loss_and_slopes(units, batch, Pattern((16, 14), (0, 1)), ImageLoss("mse")).loss / 6
    by_hand = ((images[:, 3:13, 3:11] - target) ** 2).mean()
    assert float(loss) == pytest.approx(by_hand, rel=1e-4)


@pytest.mark.parametrize(("width", "acceleration"), [(6, 2), (3, 1.5), (3, 3), (20, 20)])
def test_few_lines(width, acceleration):
    """So few units that none of them is undecided: there is nothing to fit a curvature to."""
    images = smooth_images(4, channels=3, size=(24, width), dtype=torch.complex64)
    run = learn(from_images(images), acceleration, pattern="1d", steps=8)
    assert run.mask[0].sum() == int(width / acceleration)
    assert torch.isfinite(torch.tensor(run.history.loss)).all()


def test_the_record_tells_how_data_were_read():
    images = smooth_images(4, dtype=torch.complex64)
    read = Reading(kspace="emulated", size=(8, 8), slices=(0, 3), axes="slice coil y x")
    run = learn(load(images, read), 4, steps=2)
    assert (run.config.kspace, run.config.size, run.config.slices) == ("emulated", (8, 8), (0, 3))
    assert run.config.axes == "slice coil y x"
    kspace = to_kspace(images, (-2, -1))[:, 0]
    again = learn(kspace, 4, steps=2, axes="slice ky kx", readout="none")
    assert torch.equal(again.mask, learn(to_image(kspace, (-2, -1)), 4, steps=2, axes="slice y x").mask)
    learn(from_images(images.conj()), 4, steps=2)


def test_no_thread_outlives_an_interrupted_run(monkeypatch):
    monkeypatch.setattr(SpectraSet.__init__, "__defaults__", (0,))
    before = threading.active_count()

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(from_images(smooth_images(4, dtype=torch.complex64)), 4, steps=5, on_step=interrupt)
    assert threading.active_count() == before


@pytest.mark.parametrize("pattern", ["1d", "2d"])
def test_callbacks_see_centred_probabilities(pattern):
    """As the run has them: the last ones are the result."""
    seen = []
    images = smooth_images(4, size=(15, 12), dtype=torch.complex64)
    run = learn(
        from_images(images),
        4,
        pattern=pattern,
        steps=12,
        on_step=lambda progress: seen.append(progress.probabilities),
    )
    assert run.record.reference is None
    assert torch.equal(seen[-1], run.probabilities)
    assert seen[-1][tuple(n // 2 for n in seen[-1].shape)] == seen[-1].max(), "DC is in the middle"
