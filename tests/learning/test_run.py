import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import smooth_images
from promask import Config, Run, evaluate, learn
from promask.data.arrays import from_images
from promask.errors import InputError
from promask.learning.records import Quality
from promask.operators.fourier import to_image
from promask.report.page import write_report
from promask.report.wording import how_compared


def edit(folder, before, after):
    text = (folder / "run.json").read_text()
    assert before in text
    (folder / "run.json").write_text(text.replace(before, after))


@pytest.fixture(scope="module")
def run():
    images = from_images(smooth_images(3, dtype=torch.complex64))
    return learn(images, 4.5, steps=12, members=2, seed=7, pattern="1d", axis=(0,))


def test_the_folder_is_the_contract(run, tmp_path):
    folder = run.save(tmp_path / "deep" / "run")
    mask = np.load(folder / "mask.npy", allow_pickle=False)
    probabilities = np.load(folder / "probabilities.npy", allow_pickle=False)
    record = json.loads((folder / "run.json").read_text())
    assert mask.dtype == bool
    assert mask.shape == (16, 12)
    assert probabilities.dtype == np.float32
    assert probabilities.shape == (16,)
    assert record["acceleration"] == {"asked": 4.5, "achieved": 16 / 3}
    assert (record["units"], record["budget"], record["seed"]) == (16, 3, 7)
    assert mask.sum() == 3 * 12
    assert record["config"]["steps"] == 12
    assert {len(record["history"][name]) for name in ("loss", "budget", "temperature")} == {12}
    assert record["about"]["versions"]["torch"] == torch.__version__
    assert record["about"]["seconds"] > 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "mask.npy",
        "probabilities.npy",
        "run.json",
        "trajectory.npy",
        "variance.npy",
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["run"], "no temporary files are left"


def test_reading_gives_the_same_run(run, tmp_path):
    again = Run.load(run.save(tmp_path / "run"))
    assert torch.equal(again.probabilities, run.probabilities)
    assert torch.equal(again.variance, run.variance)
    assert torch.equal(again.mask, run.mask)
    assert again.config == run.config
    assert again.history == run.history
    assert torch.equal(again.sample(2, seed=1), run.sample(2, seed=1))
    assert torch.equal(again.sample(2, seed=1, exact=True), run.sample(2, seed=1, exact=True))


def test_a_run_is_replaced_and_anything_else_is_not(run, tmp_path):
    folder = run.save(tmp_path / "run")
    run.with_record(command="again").save(folder)
    assert Run.load(folder).record.command == "again"
    (folder / "notes.txt").write_text("seen at x4")
    with pytest.raises(InputError, match=r"is a run, but holds notes.txt as well"):
        run.save(folder)
    assert (folder / "notes.txt").read_text() == "seen at x4"

    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter.tex").write_text("years of work")
    with pytest.raises(InputError, match="exists and is not a run"):
        run.save(precious)
    with pytest.raises(InputError, match="is a file"):
        run.save(precious / "chapter.tex")
    with pytest.raises(InputError, match="Cannot write to"):
        run.save(precious / "chapter.tex" / "run")
    (precious / "run.json").write_text("{}")
    with pytest.raises(InputError, match="not the record of a run"):
        run.save(precious)
    assert (precious / "chapter.tex").read_text() == "years of work"


def test_an_empty_folder_is_used(run, tmp_path):
    (tmp_path / "run").mkdir()
    assert (run.save(tmp_path / "run") / "mask.npy").exists()


def test_a_failure_while_writing_keeps_the_former_run(run, tmp_path, monkeypatch):
    folder = run.save(tmp_path / "run")
    monkeypatch.setattr("promask.learning.run.save_text", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        run.with_record(command="other").save(folder)
    assert Run.load(folder).record.command is None
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_interruption_between_the_two_renames_keeps_the_former_run(run, tmp_path, monkeypatch):
    folder = run.save(tmp_path / "run")
    rename = Path.rename
    monkeypatch.setattr(
        Path, "rename", lambda self, to: rename(self, to) if "replaced" in f"{self}{to}" else stop()
    )

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.with_record(command="other").save(folder)
    assert Run.load(folder).record.command is None
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_links_are_followed_and_the_folder_you_are_in_is_kept(run, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    run.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "mask.npy").exists()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="the folder that you are in"):
        run.save(".")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "run.json").unlink(), "holds no run.json"),
        (lambda folder: (folder / "run.json").write_text("{"), "is damaged"),
        (lambda folder: (folder / "run.json").write_text("[]"), "not the record of a run"),
        (lambda folder: (folder / "run.json").write_text('{"format": 99}'), "not the record of a run"),
        (lambda folder: (folder / "run.json").write_text('{"format": 2}'), "is missing or wrong"),
        (lambda folder: np.save(folder / "probabilities.npy", np.zeros(3, np.float32)), "does not fit the run"),
        (lambda folder: (folder / "probabilities.npy").write_bytes(b"\x93NUMPY"), "damaged"),
        (lambda folder: (folder / "variance.npy").unlink(), "Cannot read"),
        (lambda folder: np.save(folder / "probabilities.npy", np.full(16, np.nan, "f4")), "from 0 to 1"),
        (lambda folder: edit(folder, '"budget": 3', '"budget": 999'), "from 1 to 16 units"),
    ],
)
def test_damaged_folders(run, tmp_path, damage, message):
    folder = run.save(tmp_path / "run")
    damage(folder)
    with pytest.raises(InputError, match=message):
        Run.load(folder)


def test_a_run_of_another_version_is_not_read_but_may_be_replaced(run, tmp_path):
    folder = run.save(tmp_path / "run")
    edit(folder, '"format": 2', '"format": 1')
    with pytest.raises(InputError, match="can be used by themselves"):
        Run.load(folder)
    run.save(folder)
    assert torch.equal(Run.load(folder).mask, run.mask)


def test_pickles_are_never_loaded(run, tmp_path):
    folder = run.save(tmp_path / "run")
    np.save(folder / "probabilities.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(InputError, match="holds objects"):
        Run.load(folder)


def test_the_report_is_one_file_without_links(run, tmp_path):
    folder = run.save(tmp_path / "run")
    page = write_report(
        run.with_record(evaluation=Quality(psnr=30.0, nmse=0.1, images=3, part="all", acceleration=4)), folder
    )
    text = page.read_text()
    assert set(re.findall(r"https?://[^\"']+", text)) == {"http://www.w3.org/2000/svg"}, "a name, not an address"
    assert "<b>30.00 dB</b><span>PSNR</span>" in text
    assert "5.333 achieved, 4.5 asked" in text
    assert (folder / "figures" / "overview.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_is_shown_in_one_paragraph():
    run = learn(from_images(smooth_images(3, size=(12, 10), dtype=torch.complex64)), 4, steps=4, pattern="1d")
    assert "\n" not in repr(run)
    assert repr(run).startswith("Run: x5, 2 of 10 lines of 12 x 10, learned from 3 images of ")
    assert "for mse with zero-filled by best-response in 4 steps (" in repr(run)


def test_a_run_is_exported_by_itself(tmp_path):
    from promask.export import read_mask

    run = learn(from_images(smooth_images(3, size=(12, 10), dtype=torch.complex64)), 4, steps=4)
    for name in ("mask.cfl", "mask.mat", "mask.npy"):
        assert torch.equal(read_mask(run.export(tmp_path / name)).mask, run.mask)


def test_a_config_says_it_all():
    images = smooth_images(3, size=(12, 10), dtype=torch.complex64)
    config = Config.preset("default", acceleration=4, steps=5, pattern="1d", seed=3, loss="l1")
    run, same = (
        learn(from_images(images), config),
        learn(from_images(images), 4, steps=5, pattern="1d", seed=3, loss="l1"),
    )
    assert run.config == same.config
    assert torch.equal(run.probabilities, same.probabilities)
    with pytest.raises(InputError, match="The settings are in the Config: give `steps` there"):
        learn(from_images(images), config, steps=7)


def test_a_misspelt_argument_is_suggested():
    with pytest.raises(InputError, match=r"Unknown argument `center`: did you mean `centre`\?"):
        learn(from_images(smooth_images(3)), 4, center=8)


class Halved:
    """Zero-filled, with half the values: a reconstruction of a user's own, named as a built-in one."""

    name, uses_maps, iterative = "zero-filled", False, False

    def reference(self, images, maps):
        return images

    def __call__(self, kspace, mask, maps=None):
        return to_image(mask * kspace, (-2, -1)) / 2


def test_a_run_is_measured_with_the_reconstruction_it_was_learned_for(tmp_path):
    """Though another one has the same name; a run from disk does not have the object."""
    images = smooth_images(4, size=(12, 10), dtype=torch.complex64)
    run = learn(from_images(images), 4, recon=Halved(), steps=3)
    assert evaluate(run, from_images(images)).psnr == evaluate(run.mask, from_images(images), recon=Halved()).psnr
    assert evaluate(run, from_images(images)).psnr != evaluate(run.mask, from_images(images)).psnr
    again = Run.load(run.save(tmp_path / "run"))
    with pytest.raises(InputError, match="a reconstruction of your own, 'zero-filled': give it as `recon`"):
        evaluate(again, from_images(images))
    assert evaluate(again, from_images(images), recon=Halved()).psnr == evaluate(run, from_images(images)).psnr


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "`acceleration` is missing"),
        ({"accelaration": 4}, "did you mean `acceleration`"),
        ({"acceleration": 4, "resume": True}, "`resume` needs the folder of the checkpoints"),
        (
            {"acceleration": 4, "maps": torch.ones(9, 9)},
            r"`maps` must be the name of a file, but is \(\[1.0, .*\.\.\.\.$",
        ),
    ],
)
def test_arguments_that_cannot_be(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        learn(from_images(smooth_images(3)), **settings)


@pytest.mark.parametrize(
    ("measured", "said"), [(10, "the same 10 images"), (159, "the same 10 of the 159 images")]
)
def test_a_table_on_some_of_the_images_says_so(measured, said):
    run = learn(from_images(smooth_images(3, size=(12, 10), dtype=torch.complex64)), 4, steps=2)
    run = run.with_record(evaluation=Quality(acceleration=4, images=measured, part="test"))
    assert f"All masks were measured on {said}, " in how_compared(run, 10, 5)
