"""Frames on the command line: baselines and comparisons from end to end, and one sentence for what cannot be."""

import numpy as np
import pytest
from moving import moving_file, moving_images

FRAMES = ("--axes", "slice frame y x")
QUICK = ("--accel", "4", "--steps", "2", "--out", "out")
COMPARED = ("--accel", "4", "--methods", "energy", "--jobs", "1", "--out", "out")
MASK = ("--accel", "4", "--out", "mask.npy")


@pytest.fixture
def here(tmp_path, undrawn, monkeypatch):
    """The current folder, with series of six frames and others, slices, labels and sensitivities in it."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    moving_file("cine.npz")
    np.save("cine.npy", moving_images(4).numpy())
    np.save("other.npy", moving_images(1, frames=5).numpy())
    np.save("slices.npy", moving_images(4)[:, 0].numpy())
    np.savez("labelled.npz", image=moving_images(4).numpy(), label=rng.integers(0, 2, (4, 6, 24, 16)))
    np.save("maps.npy", rng.normal(size=(3, 24, 20)).astype(np.complex64))
    np.save("maps_of_frames.npy", rng.normal(size=(3, 6, 24, 16)).astype(np.complex64))
    np.save("short.npy", np.arange(5 * 24).reshape(5, 24) % 4 == 0)
    return tmp_path


NO_FRAMES = "slices.npy has none: name their axis with --axes, such as 'slice frame y x'"
NONE_TO_VARY = "is for frames, but the data have none: name their axis with --axes"
BAD = {
    "a temporal reconstruction without frames": (
        ("learn", "slices.npy", "--recon", "kt-sense", *QUICK),
        NO_FRAMES,
    ),
    "the same in a comparison": (("compare", "slices.npy", "--recon", "l+s", *COMPARED), NO_FRAMES),
    "the same of a baseline": (("baseline", "gaussian", "slices.npy", "--recon", "kt-tv", *MASK), NO_FRAMES),
    "the same of a method": (
        ("compare", "slices.npy", *COMPARED, "--methods", "promask:kt-sense"),
        "promask:kt-sense at x4: kt-sense reconstructs series of frames, but slices.npy has none",
    ),
    "kt without frames": (("learn", "slices.npy", "--pattern", "kt", *QUICK), f"The pattern kt {NONE_TO_VARY}"),
    "kt-2d on slices": (
        ("learn", "slices.npy", "--pattern", "kt-2d", *QUICK),
        f"The pattern kt-2d {NONE_TO_VARY}",
    ),
    "kt without frames in a comparison": (
        ("compare", "slices.npy", "--pattern", "kt", *COMPARED),
        f"energy:kt at x4: The pattern kt {NONE_TO_VARY}",
    ),
    "a k-t baseline without frames": (("baseline", "kt-lattice", "slices.npy", *MASK), NONE_TO_VARY),
    "kt-2d beside a readout": (
        ("learn", "cine.npy", *FRAMES, "--readout", "kx", "--pattern", "kt-2d", *QUICK),
        "The pattern kt-2d would undersample kx, the readout",
    ),
    "series of different lengths": (
        ("learn", "cine.npy", "other.npy", *FRAMES, *QUICK),
        "other.npy has a series of 5 frames, but others have 6",
    ),
    "a period that does not divide": (
        ("learn", "cine.npy", *FRAMES, "--period", "4", *QUICK),
        "--period must divide the number of frames, but is 4 for 6 frames.",
    ),
    "the same in a comparison of frames": (
        ("compare", "cine.npy", *FRAMES, "--period", "4", *COMPARED),
        "energy:kt at x4: --period must divide the number of frames, but is 4 for 6 frames.",
    ),
    "the same of a k-t baseline": (
        ("baseline", "kt-golden", "cine.npy", *FRAMES, "--period", "-3", *MASK),
        "--period must divide the number of frames, but is -3 for 6 frames.",
    ),
    "a period of a static pattern": (
        ("baseline", "equispaced", "cine.npy", *FRAMES, "--period", "3", *MASK),
        "--period is for frames that have their own pattern: choose the pattern kt.",
    ),
    "groups that do not divide": (
        ("learn", "cine.npy", *FRAMES, "--equal-per", "frame=7", *QUICK),
        "--equal-per frame=7 needs a number that divides the 6 frames.",
    ),
    "the same for a comparison": (
        ("compare", "cine.npy", *FRAMES, "--equal-per", "frame=7", *COMPARED),
        "energy:kt at x4: --equal-per frame=7 needs a number that divides the 6 frames.",
    ),
    "groups that are none": (
        ("baseline", "kt-golden", "cine.npy", *FRAMES, "--equal-per", "frame=x", *MASK),
        "--equal-per must be such as frame, frame=5, contrast, kz or none, but is 'frame=x'.",
    ),
    "more ACS lines than lines": (
        ("learn", "cine.npy", *FRAMES, "--acs", "8", *QUICK),
        "A --centre of width 8 has 8 samples or lines in each frame, but only 6 are acquired",
    ),
    "more ACS lines than lines of a method": (
        ("compare", "cine.npy", *FRAMES, "--acs", "8", *COMPARED, "--methods", "kt-lattice"),
        "kt-lattice at x4: A --centre of width 8 has 8 samples or lines in each frame, but only 6 are acquired",
    ),
    "fewer lines than frames": (
        ("baseline", "static-energy", "cine.npy", *FRAMES, *MASK, "--accel", "100"),
        "--equal-per frame needs at least 6 samples, one for each, but x100 leaves 1",
    ),
    "a network for frames": (
        ("segment", "train", "labelled.npz", *FRAMES, "--out", "unet.safetensors"),
        "labelled.npz has series of 6 frames, but training a network needs single images: with --each-frame",
    ),
    "frames as a direction": (
        ("learn", "cine.npy", *FRAMES, "--axis", "frame", *QUICK),
        "The axes must be numbers or directions such as 1, 0,2 or ky, but are 'frame'.",
    ),
    "the axis of frames": (
        ("learn", "cine.npy", *FRAMES, "--axis", "0", *QUICK),
        "would undersample the axis of frames, which is not encoded: choose other axes.",
    ),
    "the axis of frames in a comparison": (
        ("compare", "cine.npy", *FRAMES, "--axis", "0", *COMPARED),
        "would undersample the axis of frames, which is not encoded: choose other axes.",
    ),
    "partial Fourier along frames": (
        ("learn", "cine.npy", *FRAMES, "--partial-fourier", "0=0.75", *QUICK),
        "--partial-fourier is for directions of k-space, and not for frames.",
    ),
    "gaps along frames": (
        ("learn", "cine.npy", *FRAMES, "--largest-gap", "frame=2", *QUICK),
        "The axis frame is not encoded, and is no direction: choose from ky, kx.",
    ),
    "volumes of the built-in cine": (
        ("learn", "cine", "--volumes", *QUICK),
        "cine has series of slices and no volumes: leave out --volumes.",
    ),
    "volumes of the built-in cine in a comparison": (
        ("compare", "cine", "--pattern", "3d", *COMPARED),
        "cine has series of slices and no volumes: leave out --volumes.",
    ),
    "sensitivities of another size": (
        ("learn", "cine.npy", *FRAMES, "--coils", "3", "--maps", "maps.npy", *QUICK),
        "of maps.npy have shape [3, 24, 20], but the samples of cine.npy have shape [3, 24, 16].",
    ),
    "sensitivities of frames": (
        ("learn", "cine.npy", *FRAMES, "--coils", "3", "--maps", "maps_of_frames.npy", *QUICK),
        "have shape [3, 6, 24, 16], but the samples of cine.npy have shape [3, 24, 16].",
    ),
    "a pattern that does not vary": (
        ("baseline", "equispaced", "cine.npy", *FRAMES, "--pattern", "kt", *MASK),
        "equispaced masks are made of lines: choose the pattern 1d.",
    ),
    "a pattern that no method has": (
        ("compare", "cine.npy", *FRAMES, "--pattern", "kt", *COMPARED, "--methods", "radial"),
        "None of the methods can have the pattern kt: choose others, or leave it out.",
    ),
    "a mask of other frames": (
        ("compare", "cine.npy", *FRAMES, *COMPARED, "--methods", "mine=short.npy"),
        "mine: The mask has shape [5, 24], but the k-space of the data has shape [6, 24, 16]",
    ),
}


@pytest.mark.parametrize(("words", "sentence"), BAD.values(), ids=BAD)
def test_one_sentence(commands, here, words, sentence):
    words = [word for place, word in enumerate(words) if not overridden(words, place)]
    error = commands(*words, status=2)
    assert sentence in error
    assert not (here / "mask.npy").exists()
    assert not (here / "out" / "table.md").exists()


def overridden(words, place):
    """Whether an option, or its value, comes again later."""
    option = place if words[place].startswith("--") else place - 1
    return option >= 0 and words[option] in ("--methods", "--accel") and words[option] in words[option + 1 :]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("kt-lattice", ()),
        ("kt-golden", ("--pattern", "kt-2d", "--equal-per", "none")),
        ("static-energy", ("--period", "3")),
        ("variable-density", ("--equal-per", "frame=2")),
        ("equispaced", ()),
    ],
)
def test_a_baseline_of_frames(commands, here, name, pattern):
    commands("baseline", name, "cine.npz", *FRAMES, "--recon", "kt-sense", *pattern, *MASK)
    mask = np.load("mask.npy")
    assert mask.shape == (6, 24, 16)
    assert mask.sum() == 6 * 24 * 16 // 4
    if not pattern:
        assert (mask.sum((1, 2)) == 24 * 16 // 4).all()
    if name in ("equispaced", "static-energy"):
        assert (mask == mask[:1]).all()


def test_a_comparison_of_frames(commands, here):
    """The masks of one command are rows of another, by their lines alone as well."""
    commands("baseline", "kt-lattice", "cine.npz", *FRAMES, "--recon", "kt-sense", *MASK)
    np.save("lines.npy", np.load("mask.npy")[:, :, 0])
    methods = ("kt-lattice", "static-energy", "whole=mask.npy", "lines=lines.npy")
    scan = ("cine.npz", *FRAMES, "--recon", "kt-sense", "--pattern", "kt", "--accel", "4", "--seeds", "1")
    commands("compare", *scan, "--methods", *methods, "--jobs", "1", "--out", "out")
    rows = [line.split("|") for line in (here / "out" / "table.md").read_text().splitlines() if "| " in line]
    found = {row[1].strip(): row[3].strip() for row in rows if len(row) > 3}
    assert found["kt-lattice"] == found["whole"] == found["lines"] != found["static-energy"]
