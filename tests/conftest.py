import functools
import importlib.util
import itertools
import os
import shutil
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # also of the processes that tests start: the cores are taken
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # those processes would compile the package again, each of them

import jaxtyping
import pytest
import torch
import typecheck

# Every shape that a signature of the package names is checked at run time. Not so in config and reading, whose own
# checks of what users hand them are under test.
folder = Path(importlib.util.find_spec("promask").submodule_search_locations[0])
names = {path.relative_to(folder).with_suffix("").as_posix().replace("/", ".") for path in folder.rglob("*.py")}
names = {f"promask.{name}".removesuffix(".__init__") for name in names - {"__init__", "__main__"}}
names -= {"promask.learning", "promask.learning.config", "promask.data", "promask.data.reading"}
jaxtyping.jaxtyped = typecheck.jaxtyped
jaxtyping.install_import_hook(sorted(names), "typecheck.typecheck")
torch.set_num_threads(1)
# Nobody cuts the power while tests run, and they would mostly wait for the disk; when files are flushed is tested
# in tests/learning/test_recovery.py.
os.fsync = lambda file: None


@pytest.fixture(scope="session")
def caches(tmp_path_factory):
    """Empty folders, numbered here: pytest would look through all of thousands of folders for the next number."""
    folder = tmp_path_factory.mktemp("caches")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_cache(caches, monkeypatch):
    """Every test has a cache of its own, and leaves that of the user alone."""
    cache = next(caches)
    cache.mkdir()
    monkeypatch.setenv("PROMASK_CACHE", str(cache))


@pytest.fixture(scope="session", autouse=True)
def one_parser():
    """The command line is put together once, and not for each command: this takes longer than most commands."""
    from promask.cli.main import make_parser

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("promask.cli.main.make_parser", functools.cache(make_parser))
        yield


@pytest.fixture
def commands(capsys, monkeypatch, tmp_path):
    """The command line in a folder of its own: what it prints, or of an error the one sentence."""
    from promask.cli.main import main

    monkeypatch.chdir(tmp_path)

    def call(*arguments, status=0):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert stop.value.code == status, captured.err
        if not status:
            return captured.out
        understood = ("promask: kspace: ", "promask: images: ")  # what was read before something was wrong
        sentences = [line for line in captured.err.splitlines() if not line.startswith(understood)]
        assert len(sentences) == 1, captured.err
        assert sentences[0].startswith("promask: ")
        assert captured.out == ""
        return f"{sentences[0]}\n"

    return call


MADE = set()
"""The kinds of runs and comparisons of which figures were made."""


def once_for_each_kind(make, kind_of):
    """Make a figure only where there was none before of something of the same kind."""

    def made(*about):
        kind = make.__name__, *kind_of(*about)
        if kind not in MADE:
            make(*about)
            MADE.add(kind)

    return made


def kind_of_run(first, *others):
    """Its pattern and members; of masks that are drawn beside each other, those of the first, and their number."""
    run, masks = (next(iter(first.values())), len(first)) if isinstance(first, dict) else (first, 1)
    return run.distribution.pattern, run.config.members, masks, repr(others)


def kind_of_comparison(comparison):
    """Its methods and accelerations, its metrics, and what stands above them."""
    rows = tuple((row.method, row.acceleration, row.masks > 1) for row in comparison.scores)
    return rows, comparison.measure.name, comparison.full is None, comparison.frozen is None


def kind_of_pictures(masks, data, index, convention, recon, device):
    """The methods and accelerations, the shape of the images and the reconstruction."""
    methods = tuple((name, *of_accelerations) for name, of_accelerations in masks.items())
    return methods, tuple(data.shape), data.geometry, recon.name, str(device)


FIGURES = {
    "page.overview": kind_of_run,
    "page.density_figure": kind_of_run,
    "page.point_spread_figure": kind_of_run,
    "comparison.quality_over_acceleration": kind_of_comparison,
    "comparison.picture_grid": kind_of_pictures,
}


@pytest.fixture
def undrawn(monkeypatch):
    """Figures of reports and comparisons are made, but not drawn, which takes longer than a short run.

    They are made once for each kind of run or comparison: half of the time of a short one, otherwise.
    """
    for place, kind_of in FIGURES.items():
        module, name = place.split(".")
        make = getattr(importlib.import_module(f"promask.report.{module}"), name)
        monkeypatch.setattr(f"promask.report.{place}", once_for_each_kind(make, kind_of))

    def save(figure, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    monkeypatch.setattr("promask.report.page.save_figure", save)
    monkeypatch.setattr("promask.report.page.figure_picture", lambda figure: "data:image/png;base64,")
    monkeypatch.setattr("promask.report.comparison.save_figure", save)


@pytest.fixture
def few_references(monkeypatch):
    """Runs are compared with few other masks: tuned and random ones take longer than a short run."""
    monkeypatch.setattr("promask.report.measurements.REFERENCES", ("centre", "energy"))
    monkeypatch.setattr("promask.report.measurements.FOR_COILS", ("regular",))
    monkeypatch.setattr("promask.report.measurements.OF_FRAMES", ("static-energy",))


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium, the one of the system; where there is none, tests that need it are skipped and say so."""
    from playwright.sync_api import sync_playwright

    place = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if place is None:
        pytest.skip("There is no Chromium on this machine: install it to try the pages in a browser.")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=place, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield started
        started.close()


@pytest.fixture
def tab(browser):
    """A tab of its own; what the page itself complains of fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert complaints == []
