"""Learning and measuring for a reconstruction: better masks, the right targets, and objects of a user's own."""

import numpy as np
import pytest
import torch
from networks import flags, same_state, states
from safetensors.torch import load_file

import promask
from helpers import smooth_images
from promask import Run, evaluate, learn
from promask.baselines import baseline_mask
from promask.data.arrays import from_images
from promask.data.builtin.cardiac import cardiac
from promask.data.reading import Reading
from promask.data.sample_sets import ArraySet
from promask.data.sensitivities import espirit_maps
from promask.data.sources import load
from promask.errors import InputError
from promask.evaluation.images import reconstruct
from promask.learners import exchange, gradient
from promask.learners.exchange import loss_and_insertions
from promask.operators.fourier import to_image
from promask.recon.base import Reconstruction
from promask.recon.cg_sense import CgSense
from promask.recon.network import Network
from promask.recon.zero_filled import RootSumOfSquares
from promask.sampling.pattern import Pattern

HEARTS = cardiac(subjects=6, slices=2, size=40).image
SMALL = cardiac(subjects=4, slices=1, size=24).image
COILS = Reading(coils=4)
FEW = {"steps": 4, "batch_size": 3}


@pytest.fixture(scope="module")
def scans():
    """Of four patients to learn from, and of two others."""
    return load(HEARTS[:8], COILS), load(HEARTS[8:], COILS)


@pytest.fixture(scope="module")
def small():
    return load(SMALL, COILS)


@pytest.fixture
def quick(monkeypatch):
    """Without the mask that is learned for zero-filled images and looked at in the end."""

    def innermost(problem, samples, config):
        return problem.pattern.innermost(problem.budget)

    monkeypatch.setattr("promask.learning.selection._mask_for_images", innermost)


def mean_square(mask, data, recon):
    made, targets = reconstruct(torch.as_tensor(mask), data, range(len(data)), recon)
    return float((made - targets).square().mean())


def by_the_paper(image, target):
    """PSNR and NMSE: in the range of the target, and clipped to it."""
    image, target = np.abs(image).astype(np.float64), np.abs(target).astype(np.float64)
    low, high = target.min(), target.max()
    wanted = (target - low) / (high - low)
    error = np.clip((image - low) / (high - low), 0, 1) - wanted
    return -10 * np.log10((error**2).mean()), (error**2).sum() / (wanted**2).sum()


# What is learned


@pytest.mark.parametrize(
    ("pattern", "others"), [("1d", ["equispaced", "gaussian"]), ("2d", ["poisson", "gaussian"])]
)
def test_masks_for_a_reconstruction_are_better_with_it(scans, pattern, others):
    learning, held_out = scans
    run = learn(learning, 4, recon="cg-sense", pattern=pattern, steps=40)
    assert run.record.reference is None
    assert run.config.learner == "exchange"
    units = run.distribution.pattern
    masks = {name: baseline_mask(name, learning, units, 4) for name in ("energy", "centre", *others)}
    masks["zero-filled"] = learn(learning, 4, pattern=pattern).mask
    learned = evaluate(run.mask, held_out, recon="cg-sense").summary()
    for name, mask in masks.items():
        other = evaluate(mask, held_out, recon="cg-sense").summary()
        margin = 0.5 if name == "poisson" else 2.5  # of which the distances are right
        assert learned["psnr"] > other["psnr"] + margin, name
        assert learned["nmse"] < other["nmse"] * (0.9 if name == "poisson" else 0.6), name
    # For what it was not learned for, it is not the better one.
    assert (
        evaluate(run.mask, held_out).summary()["psnr"] < evaluate(masks["zero-filled"], held_out).summary()["psnr"]
    )


def test_members_and_seeds(small, quick):
    one, again, other = (learn(small, 4, recon="cg-sense", seed=seed, **FEW) for seed in (1, 1, 2))
    assert torch.equal(one.probabilities, again.probabilities)
    assert one.history == again.history
    assert one.history.loss != other.history.loss
    several = learn(small, 4, recon="cg-sense", members=2, **FEW)
    assert len(several.history.member_loss) == 2
    assert int(several.mask.sum()) == 144


@pytest.mark.parametrize(("pattern", "width", "budget"), [("1d", 6, 8), ("1d", 8, 8), ("2d", 8, 192)])
def test_the_centre_is_always_acquired_and_counted(small, pattern, width, budget, quick):
    seen = []
    run = learn(
        small,
        3,
        recon="cg-sense",
        pattern=pattern,
        centre=width,
        on_step=lambda progress: seen.append(float(progress.probabilities.sum())),
        **FEW,
    )
    block = (slice(12 - width // 2, 12 + width // 2),)
    inside = block * run.probabilities.ndim
    assert (run.probabilities[inside] == 1).all()
    assert int(run.distribution.pattern.restrict(run.mask).sum()) == budget
    assert seen == [budget] * 4


def test_the_strongest_unit_need_not_be_in_the_centre(quick):
    """A phase ramp moves the peak of k-space; the centre that was asked for takes the whole budget."""
    ramp = torch.polar(torch.ones(24), 2 * torch.pi * 7 / 24 * torch.arange(24.0))
    images = torch.as_tensor(SMALL) * ramp
    run = learn(images, 3, recon="cg-sense", pattern="1d", centre=8, coils=4, axes="slice y x", **FEW)
    assert run.mask[0].nonzero().flatten().tolist() == list(range(8, 16))


@pytest.mark.parametrize(("pattern", "init"), [("1d", "uniform"), ("2d", "uniform"), ("2d", "energy")])
def test_no_worse_than_reference_masks_on_what_was_learned_from(small, pattern, init):
    run = learn(small, 4, recon="cg-sense", pattern=pattern, init=init, steps=1)
    learned = mean_square(run.mask, small, CgSense())
    for name in ("energy", "centre"):
        plain = baseline_mask(name, small, run.distribution.pattern, 4)
        assert learned <= mean_square(plain, small, CgSense()) * (1 + 1e-5)
    assert learned <= mean_square(learn(small, 4, pattern=pattern).mask, small, CgSense()) * (1 + 1e-5)


def test_settings_are_kept_with_the_run(small, tmp_path, quick):
    run = learn(small, 4, recon="cg-sense", iterations=4, regularisation=0.01, **FEW)
    again = Run.load(run.save(tmp_path / "run"))
    assert again.config == run.config
    known = again.config
    assert (known.recon, known.iterations, known.regularisation, known.coils) == ("cg-sense", 4, 0.01, 4)
    repeated = learn(SMALL, **known.to_dict())
    assert torch.equal(repeated.probabilities, run.probabilities)
    assert Run.load(learn(small, 4, **FEW).save(tmp_path / "other")).config.recon == "zero-filled"


def test_iterations_and_regularisation_reach_the_reconstruction(small, monkeypatch, quick):
    seen = set()
    call = CgSense.from_spectra

    def spied(self, *arguments):
        seen.add((self.iterations, self.regularisation))
        return call(self, *arguments)

    monkeypatch.setattr(CgSense, "from_spectra", spied)
    learn(small, 4, recon="cg-sense", iterations=4, regularisation=0.01, **FEW)
    evaluate(torch.ones(24, 24), small, recon="cg-sense", iterations=4, regularisation=0.01)
    assert seen == {(4, 0.01)}
    learn(small, 4, recon="cg-sense", **FEW)
    assert seen == {(4, 0.01), (10, 0.003)}


@pytest.mark.parametrize(
    ("recon", "pattern"),
    [("rss", "1d"), ("rss", "2d"), ("sense", "2d"), ("cs", "2d"), ("cs-tv", "1d"), ("partial-fourier", "1d")],
)
def test_every_reconstruction_is_learned_for(small, recon, pattern, quick):
    run = learn(small, 4, recon=recon, pattern=pattern, steps=2, batch_size=2)
    assert run.config.recon == recon
    assert run.config.learner == ("best-response" if recon in ("rss", "sense") else "exchange")
    assert int(run.mask.sum()) == 144
    assert evaluate(run.mask, small, recon=recon).summary()["recon"] == recon


@pytest.mark.parametrize(
    ("settings", "by"),
    [
        ({}, "loss_and_insertions"),
        ({"preset": "paper", "members": 1, "samples": 2}, "loss_and_slopes"),
        ({"learner": "gumbel-adam"}, "loss_and_slopes"),
        ({"learner": "best-response"}, "loss_and_slopes"),
    ],
)
def test_worths_or_exact_gradients_by_the_learner(small, monkeypatch, settings, by, quick):
    called = []
    for name, module in (("loss_and_insertions", exchange), ("loss_and_slopes", gradient)):
        make = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, name=name, make=make: (called.append(name), make(*a))[1])
    run = learn(small, 4, recon="cg-sense", **settings | FEW)
    assert called == [by] * 4
    assert int(run.mask.sum()) == 144


def test_volumes():
    volumes = load(smooth_images(2, size=(8, 10, 9), phase=False)[:, 0].float(), Reading(volumes=True, coils=4))
    run = learn(volumes, 4, recon="cg-sense", pattern="2d", volumes=True, **FEW)
    assert run.mask.shape == (8, 10, 9)
    assert int(run.distribution.pattern.restrict(run.mask).sum()) == 22


# Targets, noise and maps


def test_targets_are_without_the_noise():
    noisy = load(SMALL, Reading(coils=4, noise=0.05))
    seen = set()

    def spy(images, targets):
        seen.update(round(float(each), 3) for each in targets.flatten(1).sum(1))
        return (images - targets).square().mean()

    learn(noisy, 4, recon="cg-sense", loss=spy, steps=3)
    # The coils are of sum of squares 1: combined, they see what there is.
    assert seen <= {round(float(each) + off, 3) for each in np.abs(SMALL).sum((1, 2)) for off in (-1e-3, 0, 1e-3)}
    assert len(seen) >= 4


@pytest.mark.parametrize(("recon", "noise"), [("cg-sense", 0.05), ("sense", 0.05), ("sense", 0.01)])
def test_noise_is_all_that_is_wrong_with_a_full_mask(recon, noise):
    """S^H of what was measured, against the image that it was measured of; for cg-sense, over 1.003."""
    data = load(SMALL, Reading(coils=4, noise=noise))
    result = evaluate(np.ones((24, 24)), data, recon=recon)
    for index, target in enumerate(SMALL):
        maps, measured = data[index].maps.numpy(), data[index].image.numpy()
        image = (maps.conj() * measured).sum(0) / (1.003 if recon == "cg-sense" else 1)
        assert result.psnr[index] == pytest.approx(by_the_paper(image, target)[0], abs=1e-2)
        assert 10 < result.psnr[index] < 60
    assert evaluate(np.ones((24, 24)), load(SMALL, COILS), recon="sense").summary()["psnr"] > 100


@pytest.fixture
def calibrations(monkeypatch):
    """The images that ESPIRiT was asked about."""
    seen = []

    def counted(image, *arguments):
        seen.append(image)
        return espirit_maps(image, *arguments)

    monkeypatch.setattr("promask.data.sensitivities.espirit_maps", counted)
    return seen


def test_complex_channels_without_maps_are_calibrated(small, calibrations, quick):
    """Each image once, when it is needed; maps that are there, and other reconstructions, need none."""
    images = torch.stack([small[index].image for index in range(4)])
    data = from_images(images)
    for settings in ({}, {"recon": "rss"}):
        learn(data, 4, **FEW, **settings)
    learn(small, 4, recon="cg-sense", **FEW)
    assert calibrations == []
    run = learn(data, 4, recon="cg-sense", **FEW)
    assert len(calibrations) == 4
    assert int(run.mask.sum()) == 144
    found = evaluate(run.mask, data, recon="cg-sense")
    assert len(calibrations) == 8
    by_hand = ArraySet(images, "test", maps=torch.stack([espirit_maps(image) for image in images]))
    assert found.psnr == evaluate(run.mask, by_hand, recon="cg-sense").psnr
    assert len(calibrations) == 8


def test_real_channels_are_no_coils(calibrations, quick):
    """Contrasts: of each, what was acquired, over 1 + regularisation; but nothing is learned from them."""
    images = smooth_images(3, 2, (16, 12), phase=False).float()
    with pytest.raises(InputError, match="has 2 contrasts and no coils, but cg-sense combines several coils"):
        learn(images, 4, recon="cg-sense", axes="slice contrast y x", **FEW)
    run = learn(images, 4, axes="slice contrast y x", steps=2)
    made, targets = reconstruct(run.mask, from_images(images), range(3), CgSense())
    assert calibrations == []
    assert made.shape == targets.shape == (3, 2, 16, 12)
    mask = np.fft.ifftshift(run.mask.numpy())
    expected = np.abs(np.fft.ifft2(np.fft.fft2(images.numpy()) * mask)) / 1.003
    np.testing.assert_allclose(made.numpy(), expected, atol=1e-4 * expected.max())
    np.testing.assert_allclose(targets.numpy(), images.numpy(), rtol=1e-6)


# Measured, against NumPy


def encoding_matrix(maps):
    """The scanner as a matrix, (coil and location, pixel)."""
    space = maps.shape[1:]
    every = np.eye(np.prod(space)).reshape(-1, 1, *space) * maps
    return np.fft.fft2(every, norm="ortho").reshape(len(every), -1).T


def by_numpy(recon, kspace, mask, maps):
    if recon == "cg-sense":
        weights = np.tile(mask.ravel(), len(maps))
        matrix = encoding_matrix(maps)[weights]
        normal = matrix.conj().T @ matrix + 0.02 * np.eye(matrix.shape[1])
        return np.linalg.solve(normal, matrix.conj().T @ kspace.ravel()[weights]).reshape(mask.shape)
    coil_images = np.fft.ifft2(kspace * mask, norm="ortho")
    if recon == "rss":
        return np.sqrt((np.abs(coil_images) ** 2).sum(0))
    return (maps.conj() * coil_images).sum(0)


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("recon", ["rss", "sense", "cg-sense"])
def test_evaluation_against_numpy(recon, lines):
    images = smooth_images(10, size=(11, 10), phase=False)[:, 0].float()
    mask = np.random.default_rng(0).random((1 if lines else 11, 10)) < 0.5
    mask[..., 5] = True
    mask = np.broadcast_to(mask, (11, 10))
    settings = {"iterations": 100, "regularisation": 0.02} if recon == "cg-sense" else {}
    data = load(images, Reading(coils=3))
    result = evaluate(mask.copy(), data, recon=recon, **settings)
    for index in (0, 9):
        measured, maps = (each.numpy().astype(complex) for each in (data[index].image, data[index].maps))
        kspace = np.fft.fft2(measured, norm="ortho")
        found = by_numpy(recon, kspace, np.fft.ifftshift(mask), maps)
        psnr, nmse = by_the_paper(found, images[index].numpy())
        assert result.psnr[index] == pytest.approx(psnr, rel=1e-4)
        assert result.nmse[index] == pytest.approx(nmse, rel=1e-3)
    summary = result.summary()
    assert summary["recon"] == recon
    assert summary["psnr"] == pytest.approx(np.mean(result.psnr))
    assert evaluate(mask.copy(), data).summary()["recon"] == "zero-filled"


def test_evaluation_takes_objects(small):
    mask = torch.rand(24, 24, generator=torch.Generator().manual_seed(0)) < 0.4
    assert evaluate(mask, small, recon=CgSense(iterations=3)).psnr == (
        evaluate(mask, small, recon="cg-sense", iterations=3).psnr
    )
    assert evaluate(mask, small, recon=RootSumOfSquares()).psnr == evaluate(mask, small, recon="rss").psnr


# Objects


def test_the_package_knows_its_reconstructions():
    assert promask.recon.CgSense is CgSense
    assert "recon" in dir(promask)


def test_objects_are_as_good_as_names(small, quick):
    by_name = learn(small, 4, recon="cg-sense", iterations=3, **FEW)
    by_object = learn(small, 4, recon=CgSense(iterations=3), **FEW)
    assert torch.equal(by_name.probabilities, by_object.probabilities)
    assert by_name.history == by_object.history
    assert by_object.config.recon == "cg-sense"
    assert learn(small, 4, recon="cg-sense", **FEW).history != by_name.history


class Hermitian:
    """What a user may write for real images: a missing sample is the conjugate of its twin."""

    name = "hermitian"
    uses_maps = False
    iterative = True

    def reference(self, images, maps):
        return images

    def __call__(self, kspace, mask, maps=None):
        mask = mask.expand(len(kspace), 1, *kspace.shape[2:])
        twins = (each.flip((-2, -1)).roll((1, 1), (-2, -1)) for each in (kspace.conj(), mask))
        other, acquired = twins
        return to_image(mask * kspace + (1 - mask) * acquired * other, (-2, -1))


def share_of_twins(mask):
    acquired = torch.fft.ifftshift(mask)
    return float((acquired & acquired.flip((0, 1)).roll((1, 1), (0, 1))).sum() / acquired.sum())


def test_a_reconstruction_of_ones_own(tmp_path, quick):
    recon = Hermitian()
    assert isinstance(recon, Reconstruction)
    images = torch.as_tensor(HEARTS[:6])
    run = learn(images, 4, recon=recon, steps=60)
    assert run.config.recon == "hermitian"
    assert Run.load(run.save(tmp_path / "run")).config.recon == "hermitian"
    energy = baseline_mask("energy", from_images(images), Pattern((40, 40), (0, 1)), 4)
    ours, theirs = (evaluate(mask, images, recon=recon).summary()["nmse"] for mask in (run.mask, energy))
    assert ours < 0.6 * theirs
    assert share_of_twins(energy) > 0.9
    assert share_of_twins(run.mask) < 0.45, "one of them is enough"


class Combining(Hermitian):
    """Of coils, without their maps: one image."""

    name = "combining"

    def reference(self, images, maps):
        return torch.linalg.vector_norm(images, dim=1, keepdim=True)

    def __call__(self, kspace, mask, maps=None):
        return self.reference(super().__call__(kspace, mask), None)


@pytest.mark.parametrize("settings", [{"recon": Combining()}, {"recon": "rss", "learner": "exchange"}])
def test_coils_may_be_combined_without_maps(small, quick, settings):
    assert int(learn(small, 4, **FEW, **settings).mask.sum()) == 144


def blur():
    """A network that makes images worse, as long as it is not trained."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Conv2d(2, 2, 3, padding=1), torch.nn.Dropout(0.5))
    with torch.no_grad():
        module[0].weight.mul_(0.3)
        module[0].weight[[0, 1], [0, 1]] += 1 / 9
    module.train()
    return module


def test_a_network_is_left_alone(small, quick):
    module = blur()
    before, how = states(module), flags(module)
    run = learn(small, 4, recon=Network(module), pattern="1d", **FEW)
    assert same_state(module, before)
    assert flags(module) == how
    assert all(weight.grad is None for weight in module.parameters())
    assert run.network is None
    assert (run.config.recon, run.config.learner) == ("network", "exchange")


@pytest.mark.parametrize("settings", [{}, {"learner": "gumbel-adam"}, {"learner": "best-response"}])
def test_a_network_that_is_trained_on_is_a_copy(small, settings, tmp_path, quick):
    module = blur()
    before, how = states(module), flags(module)
    run = learn(
        small,
        4,
        recon=Network(module),
        finetune=True,
        network_rate=0.01,
        **{"steps": 12, "batch_size": 4} | settings,
    )
    assert same_state(module, before)
    assert flags(module) == how
    assert run.network is not None
    assert not same_state(run.network, before)
    given, trained = (mean_square(run.mask, small, Network(each.eval())) for each in (module, run.network))
    assert trained < given
    again = Run.load(run.save(tmp_path / "run"))
    assert again.config.finetune
    weights = load_file(tmp_path / "run" / "network.safetensors")
    assert all(torch.equal(weights[name], value) for name, value in run.network.state_dict().items())


def test_a_network_that_got_worse_is_dropped(small, quick):
    module = blur()
    run = learn(small, 4, recon=Network(module), finetune=True, network_rate=100.0, **FEW)
    assert run.network is None


def test_a_network_of_the_loop_is_given_to_insert(small, monkeypatch, quick):
    """With the weights that are trained on."""
    seen = []

    def spied(masks, batch, pattern, task, recon, weights):
        seen.append((recon.module, list(weights)))
        return loss_and_insertions(masks, batch, pattern, task, recon, weights)

    monkeypatch.setattr(exchange, "loss_and_insertions", spied)
    module = blur()
    learn(small, 4, recon=Network(module), finetune=True, **FEW)
    for used, weights in seen:
        assert used is not module
        assert [id(each) for each in weights] == [id(each) for each in used.parameters()]
    assert len(seen) == 4
