"""Each command in this process, and what bad input gets: one sentence and exit status 2."""

import dataclasses
import inspect
import json
from pathlib import Path

import numpy as np
import pytest

from promask.cli.main import main
from promask.cli.options import READING
from promask.errors import InputError
from promask.learning.config import Config
from promask.report.comparison import compare

IMAGES = np.random.default_rng(0).random((10, 16, 12)).astype(np.float32)


@pytest.fixture
def promask(commands, undrawn, few_references):
    np.save("images.npy", IMAGES)
    np.savez("patients.npz", image=IMAGES, subject=np.repeat(list("abcde"), 2))
    return commands


def test_learn_and_evaluate(promask, tmp_path):
    text = promask("learn", "patients.npz", "--accel", 4, "--out", "runs/a", "--steps", 5)
    assert "held out" in text
    assert "runs/a" in text
    names = {path.name for path in (tmp_path / "runs" / "a").iterdir()}
    arrays = {"mask.npy", "probabilities.npy", "variance.npy", "trajectory.npy"}
    assert names == {*arrays, "run.json", "report.html", "figures"}
    assert np.load("runs/a/mask.npy").sum() == 48

    summary = json.loads(promask("evaluate", "runs/a", "patients.npz", "--json"))
    about = {"acceleration", "images", "part", "convention", "recon", "data", "point_spread", "density"}
    assert set(summary) == {"psnr", "ssim", "nmse", *about}
    assert (summary["acceleration"], summary["images"], summary["part"]) == (4, 2, "test")
    of_file = json.loads(promask("evaluate", "runs/a/mask.npy", "patients.npz", "--json"))
    assert of_file == summary
    assert json.loads((tmp_path / "runs/a/run.json").read_text())["about"]["evaluation"] == summary
    everything = json.loads(promask("evaluate", "runs/a", "patients.npz", "--part", "all", "--json"))
    assert everything["images"] == 10
    assert "PSNR" in promask("evaluate", "runs/a", "patients.npz")


def test_json_tells_the_data(promask):
    """The same for every command: what part was used, and what was understood of the whole."""
    np.savez("pairs.npz", image=IMAGES.reshape(5, 2, 16, 12), subject=list("aabcd"), channels=["T1", "T2"])
    data = {"source": "pairs.npz", "channels": 2, "shape": [16, 12]}
    learned = json.loads(promask("learn", "pairs.npz", "--accel", 4, "--out", "a", "--steps", 2, "--json"))
    assert learned["data"]["part"] == "train"
    assert learned["data"]["images"] == 5 - learned["evaluation"]["images"]
    assert learned["data"]["subjects"] == 3, "a fifth of the four is held out"
    assert learned["data"].items() >= data.items()
    read = learned["data"]["read"]
    assert (read["holds"], read["slices"], read["contrasts"], read["coils"], read["subjects"]) == (
        "image",
        5,
        2,
        1,
        4,
    )
    compared = ("compare", "pairs.npz", "--accel", 4, "--methods", "energy", "--jobs", 1, "--out", "b", "--json")
    for name, call in {
        "data": ("evaluate", "a", "pairs.npz", "--json"),
        "read": ("stability", "a", "pairs.npz", "--draws", 2, "--json"),
        "compared": compared,
    }.items():
        held_out = {**data, "part": "test", "images": learned["evaluation"]["images"], "subjects": 1}
        found = json.loads(promask(*call))["read" if name == "read" else "data"]
        assert found.items() >= held_out.items()
        assert found["read"]["contrasts"] == 2
    whole = json.loads(promask("evaluate", "a", "pairs.npz", "--part", "all", "--json"))["data"]
    assert whole == {**data, "part": "all", "images": 5, "subjects": 4, "read": read}


def test_conventions(promask):
    promask("baseline", "energy", "patients.npz", "--accel", 4, "--out", "energy.npy")
    call = ("evaluate", "energy.npy", "patients.npz", "--part", "all")
    paper = json.loads(promask(*call, "--json"))
    fastmri = json.loads(promask(*call, "--convention", "fastmri", "--json"))
    assert fastmri["psnr"] != paper["psnr"]
    assert (paper["convention"], fastmri["convention"]) == ("paper", "fastmri")
    assert (fastmri["images"], fastmri["volumes"]) == (10, 5)
    assert "10 samples of patients.npz (all), zero-filled. Each image is scaled by the range" in promask(*call)
    text = promask(*call, "--convention", "fastmri")
    assert "10 samples in 5 volumes of patients.npz (all), zero-filled. As in fastMRI, each volume" in text


def test_learn_tells_when_nothing_was_held_out(promask):
    assert "the same that it was learned from" in promask(
        "learn", "images.npy", "--accel", 4, "--out", "a", "--steps", 2
    )


def test_learn_prints_json(promask):
    summary = json.loads(promask("learn", "images.npy", "--accel", 5.5, "--out", "a", "--steps", 2, "--json"))
    assert summary["budget"] == 34
    assert summary["acceleration"] == pytest.approx(192 / 34)
    assert summary["evaluation"]["images"] == 10


def test_options_reach_the_run(promask):
    options = "--pattern 1d --axis 0 --loss ssim --steps 3 --batch-size 2 --samples 1 --members 2 --seed 5"
    promask("learn", "images.npy", "--accel", 4, "--out", "a", *options.split(), "--annealing", "linear")
    config = json.loads(Path("a/run.json").read_text())["config"]
    expected = {"pattern": "1d", "axis": [0], "loss": "ssim", "steps": 3, "batch_size": 2, "samples": 1}
    expected |= {"members": 2, "seed": 5, "annealing": "linear", "acceleration": 4}
    assert config | expected == config
    assert json.loads(Path("a/run.json").read_text())["seed"] == 5
    mask = np.load("a/mask.npy")
    assert (mask == mask[:, :1]).all()
    assert mask[:, 0].sum() == 4


def test_every_option_of_learn_is_a_setting_or_has_a_use_of_its_own(parser):
    """Settings are collected by their names: one that is misnamed would be lost."""
    settings = {field.name for field in dataclasses.fields(Config)}
    others = {"data", "out", "preset", "config", "resume", "overwrite", "scheduler", "as_json"}
    options = {parameter.name for parameter in parser.commands["learn"].params}
    assert options - settings == others
    assert settings - options <= {"learner", "rule", "learning_rate", "exploration", "exploitation"}


def test_every_option_of_compare_is_an_argument_of_the_function(parser):
    arguments = set(inspect.signature(compare).parameters) | set(READING)
    assert {parameter.name for parameter in parser.commands["compare"].params} - arguments == {"as_json"}


def test_options_override_a_configuration_and_zero_is_a_value(promask):
    Path("settings.json").write_text(json.dumps({"seed": 3, "steps": 4, "patience": 5, "acceleration": 4}))
    promask("learn", "images.npy", "--config", "settings.json", "--seed", 0, "--patience", 0, "--out", "a")
    config = json.loads(Path("a/run.json").read_text())["config"]
    assert (config["seed"], config["steps"], config["patience"]) == (0, 4, 0)


def test_a_run_repeats_from_its_own_record(promask):
    promask("learn", "images.npy", "--accel", 4, "--out", "a", "--steps", 4, "--seed", 3)
    promask("learn", "images.npy", "--config", "a/run.json", "--out", "b")
    assert (np.load("a/probabilities.npy") == np.load("b/probabilities.npy")).all()
    promask("learn", "images.npy", "--config", "a/run.json", "--out", "c", "--seed", 4)
    assert (np.load("a/probabilities.npy") != np.load("c/probabilities.npy")).any()


def test_a_run_starts_from_another(promask):
    promask("learn", "images.npy", "--accel", 4, "--out", "a", "--steps", 4)
    promask("learn", "images.npy", "--accel", 4, "--out", "b", "--steps", 4, "--init", "a/probabilities.npy")
    promask("learn", "images.npy", "--accel", 4, "--out", "c", "--steps", 4, "--init", "a")
    assert (np.load("b/probabilities.npy") == np.load("c/probabilities.npy")).all()


@pytest.mark.parametrize(("part", "learned", "measured"), [("train", 8, 2), ("test", 2, 8), ("all", 10, 10)])
def test_parts(promask, part, learned, measured):
    text = promask("learn", "patients.npz", "--accel", 4, "--out", "a", "--steps", 2, "--part", part)
    assert f"Learned from {learned} images" in text
    held_out = "the same that it was learned from" if part == "all" else "held out"
    assert f"measured on {measured} images, {held_out}" in text
    promask("learn", "patients.npz", "--config", "a/run.json", "--out", "b")
    assert (np.load("a/probabilities.npy") == np.load("b/probabilities.npy")).all()


def test_debug_shows_tracebacks(monkeypatch):
    with pytest.raises(InputError):
        main(["learn", "nothing.npy", "--accel", "4", "--out", "a", "--debug"])


def test_an_interruption_is_one_sentence(promask, monkeypatch):
    monkeypatch.setattr(
        "promask.learners.gradient.loss_and_slopes", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    assert "Interrupted." in promask("learn", "images.npy", "--accel", 4, "--out", "a", status=130)
    assert not Path("a").exists()


def test_the_help_tells_the_defaults_of_the_presets(promask):
    text = " ".join(promask("learn", "--help").replace("│", " ").split())
    for name in ("steps", "batch_size", "samples", "members"):
        default, paper = (getattr(Config.preset(preset, acceleration=8), name) for preset in ("default", "paper"))
        assert f"({default}; paper: {paper})" in text


def test_volumes(promask):
    np.save("volume.npy", IMAGES)
    promask(
        "learn",
        "volume.npy",
        "--volumes",
        "--pattern",
        "2d",
        "--axis",
        "0,2",
        "--accel",
        4,
        "--out",
        "a",
        "--steps",
        3,
    )
    mask = np.load("a/mask.npy")
    assert mask.shape == (10, 16, 12)
    assert (mask == mask[:, :1]).all()
    promask("learn", "volume.npy", "--pattern", "3d", "--accel", 4, "--out", "b", "--steps", 3)
    assert np.load("b/mask.npy").sum() == 480
    assert json.loads(promask("evaluate", "b", "volume.npy", "--json"))["images"] == 1


def test_masks_come_and_go_in_every_format(promask):
    """Whatever a mask is written as, it is judged alike."""
    promask("learn", "patients.npz", "--accel", 5, "--out", "a", "--steps", 4, "--pattern", "1d")
    expected = json.loads(promask("evaluate", "a", "patients.npz", "--json"))
    for ending in ("npy", "mat", "cfl", "png", "csv", "h5"):
        file = f"exported/mask.{ending}"
        assert f"{file}: mask, [16, 12], x6" in promask("export", "a", "--out", file)
        assert json.loads(promask("evaluate", file, "patients.npz", "--json")) == expected, ending
        promask("export", file, "--to", "npy", "--out", f"again-{ending}")
        assert (np.load(f"again-{ending}.npy") == np.load("a/mask.npy")).all(), ending
        promask("baseline", "equispaced", "patients.npz", "--accel", 5, "--out", f"other.{ending}")
        assert json.loads(promask("evaluate", f"other.{ending}", "patients.npz", "--json"))["acceleration"] == 6


def test_another_matrix_size(promask):
    promask("learn", "images.npy", "--accel", 4, "--out", "a", "--steps", 4)
    assert "[20, 18], x4" in promask("export", "a", "--shape", 20, 18, "--out", "b.npy")
    assert np.load("b.npy").shape == (20, 18)
    assert np.load("b.npy").sum() == 90


def test_how_files_are_read(promask):
    np.savez("raw.npz", scan=np.fft.fftshift(np.fft.fft2(IMAGES), (1, 2)), photo=IMAGES)
    options = (
        "--array",
        "scan",
        "--axes",
        "slice ky kx",
        "--slices",
        "2:-3",
        "--size=8",
        "10",
        "--kspace",
        "emulated",
    )
    promask("learn", "raw.npz", *options, "--accel", 4, "--out", "a", "--steps", 2)
    record = json.loads(Path("a/run.json").read_text())
    assert record["about"]["data"]["shape"] == [1, 8, 10]
    assert record["about"]["data"]["images"] == 5
    assert record["config"]["slices"] == [2, -3]
    as_learned = json.loads(promask("evaluate", "a", "raw.npz", "--json"))
    assert as_learned == record["about"]["evaluation"], "a run is measured on data read in the same way"
    promask("learn", "raw.npz", "--config", "a/run.json", "--out", "b")
    assert (np.load("a/probabilities.npy") == np.load("b/probabilities.npy")).all()
    fewer = json.loads(promask("evaluate", "a", "raw.npz", "--slices", ":2", "--json"))
    assert fewer["images"] == 2
    other = json.loads(promask("evaluate", "a", "images.npy", "--json"))
    assert other["images"] == 10, "of other data, --array and --slices are not those of the run"


def test_bad_files_are_named_and_left_out_if_asked(tmp_path, promask, capsys):
    folder = tmp_path / "scans"
    folder.mkdir()
    for index in range(12):
        np.save(folder / f"patient{index:02d}.npy", IMAGES[:2])
    (folder / "patient03.npy").write_bytes(b"broken")
    learn = ("learn", "scans", "--accel", 4, "--out", "a", "--steps", 2)
    assert "patient03.npy is damaged" in promask(*learn, status=2)
    assert not Path("a").exists()
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in (*learn, "--skip-bad")])
    assert stop.value.code == 0
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 2
    assert "Left out: scans/patient03.npy is damaged" in captured.err
    assert "promask: images: 22 slices of 11 subjects" in captured.err
    assert "Learned from 18 images" in captured.out


def test_a_bad_file_that_is_held_out_is_found_before_learning(promask, tmp_path):
    for part, value in (("train", 1), ("test", np.nan)):
        (tmp_path / "scans" / part).mkdir(parents=True)
        np.save(tmp_path / "scans" / part / f"{part}.npy", value * IMAGES[:2])
    error = promask("learn", "scans", "--accel", 4, "--out", "a", "--steps", 2, status=2)
    assert "test.npy, slice 0 holds NaN" in error
    assert not Path("a").exists()


def test_a_run_is_measured_on_what_it_did_not_see(promask):
    promask("learn", "patients.npz", "--accel", 4, "--out", "a", "--steps", 2, "--part", "test")
    assert json.loads(promask("evaluate", "a", "patients.npz", "--json"))["part"] == "train"
    assert json.loads(promask("evaluate", "a", "./patients.npz", "--json"))["part"] == "train"
    assert json.loads(promask("evaluate", "a/mask.npy", "patients.npz", "--json"))["part"] == "test"


def test_names_with_brackets(promask):
    assert "The run is in r [new]: open" in promask(
        "learn", "images.npy", "--accel", 4, "--out", "r [new]", "--steps", 2
    )


def test_the_mask_of_a_run_is_not_overwritten(promask):
    promask("learn", "images.npy", "--accel", 4, "--out", "a", "--steps", 2)
    error = promask("export", "a", "--shape", 20, 18, "--out", "a/mask.npy", status=2)
    assert "a/mask.npy belongs to the run a" in error
    assert "is a folder" in promask("export", "a", "--out", "a", status=2)


def test_the_cache(promask, monkeypatch, tmp_path):
    monkeypatch.setenv("PROMASK_CACHE", str(tmp_path / "kept"))
    promask("baseline", "energy", "images.npy", "--accel", 4, "--out", "a.npy")
    assert promask("cache").startswith(f"{tmp_path / 'kept'}: 0.0 MB")
    assert list((tmp_path / "kept").rglob("images"))
    promask("cache", "--clear")
    assert not list((tmp_path / "kept").rglob("images"))


@pytest.mark.parametrize("name", ["equispaced", "gaussian", "energy"])
def test_baseline(promask, name):
    assert "x4" in promask("baseline", name, "images.npy", "--accel", 4, "--out", "masks/a.npy")
    mask = np.load("masks/a.npy")
    assert mask.dtype == bool
    assert mask.sum() == 48
    assert json.loads(promask("evaluate", "masks/a.npy", "images.npy", "--json"))["acceleration"] == 4


def test_baselines_are_tuned_for_a_reconstruction(promask):
    scan = ("--coils", 4, "--recon", "cg-sense", "--iterations", 4)
    promask("baseline", "caipi", "images.npy", "--accel", 4, *scan, "--out", "coils.npy")
    promask("baseline", "caipi", "images.npy", "--accel", 4, "--out", "one.npy")
    masks = [np.load(name) for name in ("coils.npy", "one.npy")]
    assert [mask.sum() for mask in masks] == [48, 48]
    psnr = [
        json.loads(promask("evaluate", name, "images.npy", *scan, "--json"))["psnr"]
        for name in ("coils.npy", "one.npy")
    ]
    assert psnr[0] > psnr[1]


LEARN = ("learn", "images.npy", "--out", "out", "--steps", "2")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*LEARN, "--accel", "0.5"), "--accel must be a number of at least 1, but is 0.5"),
        ((*LEARN, "--accel", "-3"), "--accel must be a number of at least 1, but is -3"),
        ((*LEARN, "--accel", "nan"), "--accel must be a number of at least 1"),
        ((*LEARN, "--accel", "193"), "--accel must be from 1 to 192, the number of samples or lines, but is 193"),
        ((*LEARN, "--accel", "many"), "Invalid value for '--accel'"),
        (LEARN, "--accel is missing: give a number of at least 1, such as 8."),
        ((*LEARN, "--accel", "4", "--loss", "best"), "Unknown loss 'best'"),
        ((*LEARN, "--accel", "4", "--preset", "best"), "Unknown preset 'best'"),
        (
            (*LEARN, "--accel", "4", "--axis", "up"),
            "must be numbers or directions such as 1, 0,2 or ky, but are 'up'",
        ),
        ((*LEARN, "--accel", "4", "--axis", "kz"), "no direction 'kz': the axes of k-space are ky, kx"),
        ((*LEARN, "--accel", "4", "--pattern", "2d", "--axis", "0"), "Pattern 2d frees 2 of the axes"),
        (
            ("learn", "one.npy", "--out", "out", "--accel", "4", "--pattern", "3d"),
            "has shape [16, 12], but images of 3 axes are expected",
        ),
        (
            (*LEARN, "--accel", "4", "--pattern", "9d"),
            "pattern must be 1d or 2d or 3d or kt or kt-2d or radial",
        ),
        ((*LEARN, "--accel", "4", "--init", "none.npy"), "none.npy is not 'uniform', 'energy', a file"),
        ((*LEARN, "--accel", "4", "--device", "abacus"), "The device 'abacus' cannot be used here"),
        ((*LEARN, "--accel", "4", "--config", "none.json"), "Cannot read the configuration none.json"),
        ((*LEARN, "--accel", "4", "--config", "images.npy"), "is not JSON"),
        ((*LEARN, "--accel", "4", "--unknown"), "No such option"),
        (("learn", "liver", "--accel", "4", "--out", "out"), "liver is neither a file nor a built-in data set"),
        (("learn", "nan.npy", "--accel", "4", "--out", "out"), "nan.npy, slice 3 holds NaN"),
        (("learn", "zero.npy", "--accel", "4", "--out", "out"), "zero.npy, slice 7 is zero everywhere"),
        (("learn", "images.npy", "--accel", "4", "--out", "full"), "full exists and is not a run"),
        (("learn", "images.npy", "--accel", "4", "--out", "images.npy"), "images.npy is a file"),
        (("evaluate", "mask.npy", "images.npy"), "The mask has shape [5, 5]"),
        (
            ("evaluate", "mask.npy", "images.npy", "--convention", "x"),
            "Unknown convention 'x': choose one of paper, fastmri.",
        ),
        (("evaluate", "nowhere", "images.npy"), "nowhere is neither a run folder nor a mask file"),
        (("evaluate", "full", "images.npy"), "full is not a run: it holds no mask.npy"),
        (("baseline", "best", "images.npy", "--accel", "4", "--out", "a.npy"), "Unknown baseline 'best'"),
        (("baseline", "energy", "images.npy", "--accel", "4", "--out", "a.tiff"), "does not say in which format"),
        (
            ("baseline", "energy", "images.npy", "--accel", "4", "--out", "a.npy", "--to", "png"),
            "let its name end",
        ),
        (
            ("export", "mask.npy", "--out", "a.npy", "--to", "tiff"),
            "Unknown format 'tiff': choose one of npy, mat",
        ),
        (("export", "images.npy", "--out", "a.png"), "images.npy is not a mask"),
        (("export", "nowhere", "--out", "a.png"), "nowhere is neither a run folder nor a mask file"),
        (("export", "mask.npy", "--out", "a.npy", "--shape", "320"), "cannot be carried to shape [320]"),
        ((*LEARN, "--accel", "4", "--slices", "4"), "first and end, such as 10:40 or 2:-2, but are '4'"),
        ((*LEARN, "--accel", "4", "--slices", "4:4"), "images.npy holds no slices to take"),
        (
            (*LEARN, "--accel", "4", "--size", "8", "8", "8"),
            "size [8, 8, 8] does not fit images of shape [16, 12]",
        ),
        ((*LEARN, "--accel", "4", "--kspace", "bought"), "kspace must be acquired or emulated, but is 'bought'"),
        ((*LEARN, "--accel", "4", "--plane", "up"), "plane must be sagittal or coronal or axial"),
        ((*LEARN, "--accel", "4", "--array", "x"), "images.npy holds no array 'x'"),
        (("baseline", "energy", "images.npy", "--accel", "4", "--out", "images.npy/a.npy"), "Cannot write to"),
        (
            ("baseline", "energy", "images.npy", "--accel", "4", "--out", "a.npy", "--seed", "-4"),
            "The seed must be",
        ),
        (
            ("baseline", "equispaced", "images.npy", "--accel", "4", "--pattern", "2d", "--out", "a.npy"),
            "made of lines",
        ),
        (("fly",), "No such command"),
    ],
)
def test_bad_input(promask, tmp_path, arguments, message):
    for name, place, value in (("nan", (3, 0, 0), np.nan), ("zero", 7, 0)):
        images = IMAGES.copy()
        images[place] = value
        np.save(f"{name}.npy", images)
    np.save("mask.npy", np.eye(5))
    np.save("one.npy", IMAGES[0])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious.txt").write_text("keep me")
    before = sorted(tmp_path.rglob("*"))
    assert message in promask(*arguments, status=2)
    assert sorted(tmp_path.rglob("*")) == before, "nothing is written"


def test_help_and_version(promask):
    assert "learn" in promask()
    assert "learn" in promask("--help")
    assert promask("--version").strip().count(".") == 2


def test_the_demo_beats_the_masks_that_know_nothing(commands, tmp_path):
    said = commands("demo", "--out", tmp_path / "demo")
    assert said.rstrip().endswith(str(tmp_path / "demo" / "report.html"))
    found = json.loads((tmp_path / "demo" / "run.json").read_text())["about"]["compared"]["masks"]
    for other in ("equispaced", "gaussian"):
        assert found["promask"]["psnr"] > found[other]["psnr"] + 5
        assert found["promask"]["ssim"] > found[other]["ssim"] + 0.1
        assert found["promask"]["nmse"] < found[other]["nmse"] / 2
    assert {row["acceleration"] for row in found.values()} == {8}
    assert found["promask"]["psnr"] > found["energy"]["psnr"] - 0.1
    assert 1e5 < (tmp_path / "demo" / "report.html").stat().st_size < 5e6
    assert (tmp_path / "demo" / "figures" / "overview.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_replaces_its_own_folder_and_no_other(commands, monkeypatch):
    replaced = []
    monkeypatch.setattr(
        "promask.report.pipeline.learn_and_report", lambda *_, overwrite, **__: replaced.append(overwrite)
    )
    monkeypatch.setattr("promask.cli.main.show_run", lambda *_, **__: None)
    for options in ((), ("--out", "runs/brain"), ("--out", "runs/brain", "--overwrite")):
        commands("demo", *options)
    assert replaced == [True, False, True]
