"""The rows of a comparison: names, variants, and what is compared without a choice."""

import pytest

from promask.baselines import BASELINES
from promask.errors import InputError, InputWarning
from promask.evaluation.methods import Method, parse_methods, usual_methods
from promask.recon import make_reconstruction


def test_methods_have_one_name_each():
    texts = ["promask:2d", "igs:1d", "igs", "igs:2d:ssim", "promask:ssim:1d", "energy:1d", "promask"]
    labels = [method.label for method in parse_methods(texts, "mse")]
    assert labels == ["promask", "igs", "igs:2d:ssim", "promask:1d:ssim", "energy:1d"]
    assert [method.label for method in parse_methods(["promask", "energy"], "ssim")] == [
        "promask:ssim",
        "energy",
    ]


def test_usual_methods_fit_the_data():
    for dimensions in (1, 2, 3):
        methods = usual_methods("mse", dimensions)
        assert all(method.free <= dimensions for method in methods)
        assert any(method.name == "promask" for method in methods)
    for_zero_filling = {
        name for name, each in BASELINES.items() if not each.for_coils and each.usual not in ("kt", "radial")
    }
    assert {method.name for method in usual_methods("mse", 2)} == {*for_zero_filling, "promask"}


@pytest.mark.filterwarnings("ignore:Left out")  # BART need not be installed
def test_strong_rivals_for_iterative_reconstructions():
    """Lattices, grids, tuned Poisson discs and densities, of samples and of lines; only lines beside a readout."""
    recon = make_reconstruction("cg-sense")
    points = {method.label for method in usual_methods(None, 2, recon=recon)}
    strong = {"regular", "variable-density", "poisson-tuned"}
    assert points >= strong | {"caipi", "partial-fourier"} | {f"{name}:1d" for name in strong}
    lines = {method.label for method in usual_methods(None, 2, recon=recon, readout=True)}
    assert lines >= {f"{name}:1d" for name in (*strong, "partial-fourier")}
    assert not lines & {"caipi", "bart-poisson", *strong}


def test_what_is_tuned_by_another_loss_has_its_name():
    labels = [method.label for method in parse_methods(["caipi", "poisson", "variable-density:1d:mse"], "ssim")]
    assert labels == ["caipi:ssim", "poisson", "variable-density:1d"]
    assert Method.parse("caipi:cg-sense").recon == "cg-sense"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("best", "Unknown method 'best': choose from equispaced"),
        ("promask:4d", "Unknown variant '4d' of promask: choose from 1d, 2d, 3d, kt, kt-2d, radial, spiral"),
        ("energy:ssim", "Unknown variant 'ssim' of energy: choose from 1d, 2d, 3d, kt, kt-2d, equal."),
        ("equispaced:2d", "There is no equispaced:2d: choose equispaced:1d."),
        ("", "Unknown method ''"),
        ("promask:1d:2d", "promask:1d:2d asks for two things at once: choose one of 1d, 2d."),
        ("igs:mse:ssim", "asks for two things at once"),
    ],
)
def test_methods_that_do_not_exist(text, sentence):
    with pytest.raises(InputError, match=sentence.replace(".", r"\.")):
        Method.parse(text)


def test_without_bart(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.warns(InputWarning, match="Left out: bart-poisson, which needs the program bart: install BART"):
        methods = usual_methods(None, 2, recon=make_reconstruction("cg-sense"))
    assert "bart-poisson" not in {method.name for method in methods}


def test_without_an_extra_package(monkeypatch):
    """What was asked for is refused before any work; what comes without asking is left out, with a sentence."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.warns(
        InputWarning, match=r"Left out: poisson, which needs sigpy: pip install 'promask\[poisson\]'"
    ):
        methods = usual_methods("mse", 2)
    assert "poisson" not in {method.name for method in methods}
    with pytest.raises(InputError, match="poisson masks need sigpy"):
        parse_methods(["poisson"], "mse")
