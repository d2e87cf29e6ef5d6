"""The commands of `promask figure`: what they write, and what they refuse."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from comparisons import heart_file, heart_network, image_file
from matplotlib.figure import Figure

import promask as library
from promask.errors import InputWarning
from promask.evaluation.matching import held_out
from promask.figures.images import MaskSource, load_masks, network_of, unique_names
from promask.figures.layout import RESOLUTION
from promask.figures.learning import DRAWS, FRAMES, IMAGES
from promask.figures.masks import DRAWS as VARIANCE_DRAWS
from promask.figures.masks import examples_of


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A folder with images of five subjects, 24 x 20, and a run on them, whose budget falls; learned once."""
    folder = tmp_path_factory.mktemp("example")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("PROMASK_CACHE", str(tmp_path_factory.mktemp("cache")))
        image_file("images.npz")
        learn("a", annealing="linear", steps=12, patience=0, members=2, batch_size=4, init="uniform")
    return folder


@pytest.fixture
def promask(commands, example, tmp_path):
    """In a copy of that folder."""
    shutil.copytree(example, tmp_path, dirs_exist_ok=True)
    return commands


def learn(folder, acceleration=4, data="images.npz", **settings):
    library.learn(data, acceleration, **settings).save(folder)


def written(promask, *arguments, out="figure"):
    """Call a command; the content of the SVG, after a look at both files."""
    told = promask("figure", *arguments, "--out", out, "--dpi", 40)
    assert told == f"Written: {out}.png, {out}.svg\n"
    assert Path(f"{out}.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    return Path(f"{out}.svg").read_text()


def test_figures_of_one_run(promask):
    options = {"film": ("--frames", 2), "histograms": (), "curves": ("--images", 1, "--draws", 0)}
    made = {name: written(promask, name, "a", *more, out=f"new/{name}") for name, more in options.items()}
    assert len(set(made.values())) == 3
    assert made["film"] == written(promask, "film", "a", "--frames", 2), "the same bytes"


def test_defaults_are_those_of_the_functions(promask, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    defaults = {
        "film": [("--frames", FRAMES), ("--dpi", RESOLUTION)],
        "curves": [("--images", IMAGES), ("--draws", DRAWS)],
        "variance": [("--draws", VARIANCE_DRAWS)],
    }
    for command, options in defaults.items():
        lines = promask("figure", command, "--help").splitlines()
        for option, value in options:
            (line,) = (line for line in lines if f" {option} " in line)
            assert f"[default: ({value})]" in line


def test_examples_that_cannot_be_read_are_left_out(promask):
    library.learn(np.random.default_rng(0).random((4, 24, 20)).astype(np.float32), 4, steps=2).save("array")
    with pytest.warns(InputWarning, match=r"There is no example of .*: "):
        ((source, _),) = examples_of([library.Run.load(each) for each in ("a", "array")]).items()
    assert source == "images.npz"
    assert written(promask, "probabilities", "a", "array").count("<image") == 4
    assert written(promask, "probabilities", "array").count("<image") == 2


def test_several_runs(promask):
    learn("b", 2, steps=2)
    both = written(promask, "probabilities", "a", "b")
    # Two maps, an example and a colour bar, each a picture of its own.
    assert both.count("<image") == 4
    assert written(promask, "probabilities", "a", "b", "--no-examples").count("<image") == 3
    assert written(promask, "variance", "a", "b", "--masks-only").count("<image") == 2


def test_options_reach_the_figures(promask, monkeypatch):
    calls = []
    for name in ("learning.film", "learning.curves", "masks.variance", "images.reconstructions"):
        monkeypatch.setattr(
            f"promask.figures.{name}", lambda *arguments, **_: calls.append(arguments) or Figure((1, 1))
        )
    written(promask, "film", "a", "--image", 1, "--frames", 3)
    written(promask, "film", "a", "--part", "all")
    written(promask, "curves", "a", "--images", 2, "--draws", 1, "--seed", 7)
    written(promask, "variance", "a", "--image", 0, "--draws", 9, "--seed", 8, "--slices", "0:4", "--part", "all")
    written(promask, "reconstructions", "a", "--image", 1, "--zoom", "2:9,3:12", "--recon", "cs")
    film, whole, curves, variance, reconstructions = calls
    assert film[2:] == (1, 3)
    assert (len(film[1]), len(whole[1])) == (2, 10)
    assert curves[2:] == (2, 1, 7)
    assert [len(data) for data in variance[1]] == [4]
    assert variance[2:] == (0, 9, 8)
    assert reconstructions[2] == 1
    assert reconstructions[3].name == "cs"
    assert reconstructions[4] == (slice(2, 9), slice(3, 12))


def test_what_is_compared(promask):
    promask("baseline", "gaussian", "images.npz", "--accel", 4, "--out", "drawn.npy")
    words = ["ours=a", "drawn.npy", "energy", "energy:1d", "equispaced"]
    figure = written(promask, "reconstructions", *words)
    assert figure.count("<image") == 3 + 4 * len(words) + 1
    found = load_masks([MaskSource.parse(word) for word in words])
    assert list(found.masks) == ["ours", "drawn", "energy", "energy:1d", "equispaced"]
    assert np.array_equal(found.masks["ours"].numpy(), np.load("a/mask.npy"))
    assert np.array_equal(found.masks["drawn"].numpy(), np.load("drawn.npy"))
    assert int(found.masks["energy"].sum()) == 120, "at the acceleration of the run"
    promask("baseline", "energy", "images.npz", "--accel", 4, "--out", "energy.npy")
    assert np.array_equal(found.masks["energy"].numpy(), np.load("energy.npy")), "made of what is not held out"
    assert bool((found.masks["energy:1d"] == found.masks["energy:1d"][0]).all())
    fewer = load_masks([MaskSource.parse("energy")], "images.npz", acceleration=8)
    assert int(fewer.masks["energy"].sum()) == 60


def test_baselines_are_made_of_what_the_run_is_made_of(promask):
    learn("lines", 4, pattern="1d", axis=0, centre=3, steps=2)
    words = ["lines", "energy", "energy:1d", "gaussian", "equispaced", "energy:2d", "radial"]
    found = load_masks([MaskSource.parse(word) for word in words]).masks
    for name in words[:5]:
        assert bool((found[name] == found[name][:, :1]).all()), f"{name}: lines along the axis of the run"
        assert int(found[name][:, 0].sum()) == 6
        assert bool(found[name][11:14].all()), f"{name}: with its centre"
    assert torch.equal(found["energy"], found["energy:1d"])
    for name in words[5:]:
        assert not bool((found[name] == found[name][:, :1]).all())
        assert int(found[name].sum()) == 120
        assert bool(found[name][11:14, 9:12].all())


def test_baselines_beside_a_run_on_volumes(promask):
    volumes = torch.rand(3, 6, 8, 10).numpy()
    np.save("volumes.npy", volumes)
    learn("pairs", 4, "volumes.npy", volumes=True, pattern="2d", axis=(0, 1), steps=2)
    words = ["pairs", "energy", "energy:1d", "equispaced", "energy:3d"]
    found = load_masks([MaskSource.parse(word) for word in words]).masks
    constant = {
        name: [axis for axis in range(3) if bool((mask == mask.narrow(axis, 0, 1)).all())]
        for name, mask in found.items()
    }
    assert constant == {"pairs": [2], "energy": [2], "energy:1d": [0, 2], "equispaced": [0, 2], "energy:3d": []}


def test_names_that_look_like_mathematics(promask):
    written(promask, "reconstructions", r"a$\foo$=energy", "a")


def test_what_a_shell_completes(promask, complete):
    assert complete("promask figure film a --data hea") == ["head"]
    Path("energetic").mkdir()
    assert complete("promask figure reconstructions a ener") == ["energy", "energetic/"]
    assert complete("promask figure contours a poi") == ["poisson", "poisson-tuned"]


def test_images_are_held_out(promask):
    run = library.Run.load("a")
    shown = held_out(run)
    assert len(shown) == 2
    assert set(shown.groups).isdisjoint(held_out(run, part="train").groups)
    evaluated = json.loads(promask("evaluate", "a", "images.npz", "--json"))
    assert library.evaluate(run.mask, shown, "all").summary()["psnr"] == evaluated["psnr"]
    assert len(held_out(run, part="train")) == 8
    image_file("others.npz")
    assert len(held_out(run, "others.npz")) == 2
    assert len(held_out(run, slices=(0, 4), part="all")) == 4


def test_names_are_different(promask):
    learn("deep/a", steps=2)
    sources = [MaskSource.parse(word) for word in ("a", "deep/a", "energy", "energy", "x=energy")]
    assert unique_names(sources) == ["a", "deep/a", "energy", "energy (2)", "x"]


def test_contours(promask):
    heart_file("hearts.npz")
    heart_network().save("network.safetensors")
    learn("task", 4, "hearts.npz", network="network.safetensors", steps=1, batch_size=2)
    own = written(promask, "contours", "task", "energy")
    assert own == written(promask, "contours", "task", "energy", "--network", "network.safetensors")
    assert own.count("<image") == 3
    assert own != written(promask, "contours", "task", "energy", "--image", 0)
    assert network_of([MaskSource.parse("a"), MaskSource.parse("task")]) == Path("network.safetensors").resolve()
    Path("network.safetensors").unlink()
    sentence = promask("figure", "contours", "task", "--out", "x", status=2)
    assert "that of the run is not at" in sentence
    assert "choose one with --network." in sentence


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("film", "nothing"), "nothing is not a run: it holds no run.json"),
        (("film", "a", "--image", "9"), "has images 0 to 1 to show, but number 9 was asked for"),
        (("film", "a", "--data", "missing.npz"), "missing.npz is neither a file nor a built-in data set"),
        (("film", "a", "--data", "small.npy"), "but those of small.npy have shape [9, 8]"),
        (("reconstructions", "a", "nonsense"), "nonsense is neither a run, nor a mask file, nor a baseline"),
        (("reconstructions", "a", "energy:4d"), "Unknown pattern '4d' of energy"),
        (("reconstructions", "energy"), "no run among the masks that would say which images to show"),
        (("reconstructions", "energy", "--data", "images.npz"), "give --accel, such as 8"),
        (("reconstructions", "a", "--zoom", "all"), "A zoom is rows and columns"),
        (("reconstructions", "a", "small.npy"), "A mask must hold only 0 and 1"),
        (("contours", "a"), "no run was learned for one: choose one with --network"),
        (("variance", "a", "--draws", "1"), "--draws"),
    ],
)
def test_what_is_refused(promask, arguments, message):
    np.save("small.npy", np.random.default_rng(0).random((3, 9, 8)).astype(np.float32))
    assert message in promask("figure", *arguments, "--out", "x", status=2)
    assert not list(Path().glob("x*"))


def test_places_that_are_refused(promask):
    assert "leave out the ending" in promask("figure", "histograms", "a", "--out", "x.pdf", status=2)
    assert "a is a folder" in promask("figure", "histograms", "a", "--out", "a", status=2)


def test_runs_without_a_way_or_data(promask):
    Path("a/trajectory.npy").unlink()
    for name in ("film", "histograms", "curves"):
        assert "kept no probabilities of its steps" in promask("figure", name, "a", "--out", "x", status=2)
    Path("images.npz").unlink()
    sentence = promask("figure", "variance", "a", "--out", "x", status=2)
    assert "The data of the run cannot be read, choose others with --data: images.npz is neither" in sentence
    written(promask, "variance", "a", "--masks-only")


def test_every_command_has_an_example(promask):
    names = ("film", "probabilities", "histograms", "curves", "reconstructions", "contours", "variance")
    listed = promask("figure", "--help")
    for name in names:
        assert name in listed
        assert f"promask figure {name} " in promask("figure", name, "--help")


def test_figures_of_physicists(promask):
    promask("baseline", "equispaced", "images.npz", "--accel", 4, "--out", "lines.npy")
    for name in ("psf", "density"):
        assert "equispaced" in written(promask, name, "a", "equispaced=lines.npy")
    sentence = promask("figure", "psf", "energy", "--out", "psf", status=2)
    assert "energy is a baseline, which has no mask yet: write it with promask baseline" in sentence
    learn("coils", 4, steps=2, coils=4, recon="cg-sense")
    assert "SENSE" not in written(promask, "noise", "coils", "--replicas", 3)
    assert "needs coil sensitivities" in promask("figure", "noise", "a", "--out", "noise", status=2)


def test_an_evaluation_says_what_physicists_ask(promask):
    learn("coils", 4, steps=2, coils=4, recon="cg-sense")
    found = json.loads(promask("evaluate", "coils", "images.npz", "--json"))
    assert found["noise"]["replicas"] == 16
    assert found["noise"]["amplification"]["mean"] > 0
    assert found["density"]["samples"] == 120
    assert len(found["point_spread"]["width"]) == 2
    assert "noise" not in json.loads(promask("evaluate", "coils", "images.npz", "--json", "--noise-replicas", 0))
    told = promask("evaluate", "coils", "images.npz", "--noise-replicas", 3)
    assert "Point spread: width ky " in told
    assert "(3 replicas of image " in told
    assert "noise" not in json.loads(promask("evaluate", "a", "images.npz", "--json"))
