"""The rows of a comparison: names, variants, and what is compared without a choice."""

import pytest

from promask.baselines import BASELINES
from promask.errors import InputError, InputWarning
from promask.evaluation.methods import Method, parse_methods, usual_methods


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
    assert {method.name for method in usual_methods("mse", 2)} == {*BASELINES, "promask"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("best", "Unknown method 'best': choose from equispaced"),
        ("promask:4d", "Unknown variant '4d' of promask: choose from 1d, 2d, 3d, mse, l1, ssim"),
        ("energy:ssim", "Unknown variant 'ssim' of energy: choose from 1d, 2d, 3d."),
        ("equispaced:2d", "There is no equispaced:2d: choose equispaced:1d."),
        ("", "Unknown method ''"),
        ("promask:1d:2d", "promask:1d:2d asks for two things at once: choose one of 1d, 2d."),
        ("igs:mse:ssim", "asks for two things at once"),
    ],
)
def test_methods_that_do_not_exist(text, sentence):
    with pytest.raises(InputError, match=sentence.replace(".", r"\.")):
        Method.parse(text)


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
