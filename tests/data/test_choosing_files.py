"""Which files are data: lists and globs, `select`, contrasts of BIDS, and what promask itself has written."""

import numpy as np
import pytest
from file_writers import IMAGE, SERIES, VOLUME, images_of, put, same, write_all, write_dicom, write_nifti

from promask import Run, learn
from promask.data.file_set import prepare
from promask.data.reading import Reading
from promask.data.sample_sets import choose_part
from promask.data.sources import absolute_source, load, same_data, short_source, source_text, source_words
from promask.errors import InputError, InputWarning
from promask.evaluation.evaluate import evaluate
from promask.learning.config import Config


@pytest.fixture
def scans(tmp_path, monkeypatch):
    """Files a_1, a_2, b_1 and c_1, the last in a folder of its own, in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_all(tmp_path, ["a_1.npy", "a_2.npy", "b_1.npy", "more/c_1.npy"])
    return tmp_path


def numbers(data):
    """The numbers of the files that data come from, in their order, as `write_all` adds them."""
    first = images_of(prepare(data))[:: len(IMAGE), 0]
    return [round(float((image - IMAGE[0]).mean())) for image in first]


def refusal(data, **reading):
    with pytest.raises(InputError) as caught:
        load(data, Reading(**reading))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "found", "groups"),
    [
        (["b_1.npy", "a_1.npy"], [2, 0], "b a"),
        ("*.npy", [0, 1, 2], "a a b"),
        ("a*.npy", [0, 1], "a_1 a_2"),
        ("**/*_1.npy", [0, 2, 3], "a b more"),
        (["a_1.npy", "a*.npy", "./a_2.npy"], [0, 1], "a_1 a_2"),
        (["more", "?_1.npy"], [3, 0, 2], "more a b"),
        (("m[aeiou]re", "b_1.npy"), [3, 2], "more b_1"),
        (".", [0, 1, 2, 3], "a a b more"),
    ],
    ids=str,
)
def test_files_folders_and_globs(scans, data, found, groups):
    loaded = load(data)
    assert numbers(loaded) == found
    assert list(loaded.groups[:: len(IMAGE)]) == groups.split()
    again = load(loaded.name)  # as a run remembers it
    assert numbers(again) == found
    assert same_data(loaded.name, again.name)


def test_parts_as_several_words(scans):
    write_all(scans / "data", ["train/1.npy", "train/2.npy", "test/1.npy", "test/sub-1.npy"])
    whole = choose_part(load("data"), None, "train")[0]
    parts = choose_part(load(["data/train", "data/test"]), None, "train")[0]
    by_globs = choose_part(load("data/test/*.npy data/train/*.npy"), None, "train")[0]
    assert list(whole.groups) == list(parts.groups) == list(by_globs.groups)
    same(images_of(prepare(whole)), images_of(prepare(parts)))
    alone = choose_part(load("data/train"), None, "train")[0]
    assert len(alone) == len(IMAGE)  # its own patients are split


def test_a_name_with_a_space_is_a_name(scans):
    for name in ("a b.npy", "it's.npy"):
        (scans / "a_1.npy").rename(scans / name)
        assert load(name).name == name
        assert source_words(load(name).name) == [name]
        both = load([name, "b_1.npy"])
        assert source_words(both.name) == [name, "b_1.npy"]
        assert len(load(both.name)) == 2 * len(IMAGE)
        (scans / name).rename(scans / "a_1.npy")
    assert "my scan.npy is neither a file" in refusal("my scan.npy")
    assert "gone.npy is neither a file" in refusal("a_2.npy gone.npy")
    many = [f"{'x' * 50}{number}.npy" for number in range(200)]
    assert source_words(source_text(many)) == many  # longer than a name may be


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (["brain", "a_1.npy"], "brain cannot be read together with a_1.npy"),
        (["a_1.npy", "acdc:more"], "acdc:more cannot be read together with a_1.npy"),
        ("brain knee", "brain cannot be read together with knee"),
        ("x/*.npy", "No file matches x/*.npy"),
        (["a_1.npy", "notes.txt"], "notes.txt cannot be read: promask reads .npz"),
        ("n*.txt", "n*.txt holds no file that promask reads"),
        (["empty", "n*.txt"], "empty and 1 more hold no file that promask reads"),
    ],
    ids=str,
)
def test_what_is_refused(scans, data, message):
    put(scans / "notes.txt", b"text")
    (scans / "empty").mkdir()
    assert message in refusal(data)


def test_labels_are_not_images_in_a_glob(scans):
    for name in ("x.nii", "x_seg.nii", "y.nii"):
        write_nifti(scans / name, VOLUME)
    for data in ("*.nii", ["x.nii", "x_seg.nii", "y.nii"]):
        assert len(load(data)) == 2 * VOLUME.shape[2]
    assert len(load("x_seg.nii")) == VOLUME.shape[2]


def test_series_by_a_glob(scans):
    for place, pixels in enumerate(SERIES):
        write_dicom(scans / "dicom" / f"IM{9 - place}", pixels, place, series=f"1.{1 + place // 3}")
    found, folder = (images_of(prepare(load(data, Reading(volumes=True)))) for data in ("dicom/IM*", "dicom"))
    assert len(found) == 2
    same(np.sort(found.ravel()), np.sort(folder.ravel()))


def test_sources_elsewhere(scans, monkeypatch):
    there = absolute_source(["a_1.npy", "more/*.npy"])
    monkeypatch.chdir("/")
    assert numbers(load(there)) == [0, 3]
    monkeypatch.chdir(scans)
    assert same_data(there, "more/c_1.npy a_1.npy")
    assert not same_data(there, "a_1.npy")
    assert not same_data("x/*.npy", "y/*.npy")
    assert same_data("acdc:more", f"acdc:{scans}/more")
    assert not same_data("acdc:more", "brats:more")
    assert short_source(there) == "a_1.npy and 1 more"


def test_a_run_finds_its_files_again(scans):
    run = learn(["a_1.npy", "b_1.npy", "more"], 4, steps=2)
    assert run.record.data.source == "a_1.npy b_1.npy more"
    run = Run.load(run.save("run"))
    known, as_given, in_other_words = (
        evaluate(run, data) for data in (run.record.data.source, ["a_1.npy", "b_1.npy", "more"], "more ?_1.npy")
    )
    assert known.part == "test"
    assert known.psnr == as_given.psnr == in_other_words.psnr


# select

BIDS = [
    f"sub-0{subject}/{place}"
    for subject in (1, 2)
    for place in (
        f"anat/sub-0{subject}_ses-01_T1w.npy",
        f"anat/sub-0{subject}_ses-02_acq-highres_T1w.npy",
        f"anat/sub-0{subject}_ses-01_T2w.npy",
        f"func/sub-0{subject}_ses-01_task-rest_bold.npy",
    )
]


@pytest.fixture
def bids(tmp_path):
    write_all(tmp_path / "bids", BIDS)
    put(tmp_path / "bids" / "sub-01" / "anat" / "sub-01_ses-01_T1w.json", b"{}")
    put(tmp_path / "bids" / "participants.tsv", b"")
    return tmp_path / "bids"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("T1w", [0, 1, 4, 5]),
        (["T1w", "ses-01"], [0, 4]),
        ("acq-highres", [1, 5]),
        (["*_T2w.npy"], [2, 6]),
        (("sub-01/anat/*", "T1w"), [0, 1]),
        (["sub-0[2-9]*", "task-rest"], [7]),
        ("?ub-01_ses-01_T1w.npy", [0]),
    ],
    ids=str,
)
def test_select(bids, words, found):
    assert numbers(load(bids, Reading(select=words))) == found


def test_contrasts_are_not_mixed(bids):
    assert refusal(bids) == (
        f"{bids} mixes T1w (4 files), T2w (2) and bold (2): choose one with `select`, such as '*_T1w.npy'."
    )
    assert "mixes T1w (2 files), T2w (2) and bold (2)" in refusal(f"{bids}/**/*ses-01*.npy")
    assert "mixes T1w (2 files), T2w (2) and bold (2)" in refusal(bids, select="ses-01")
    assert "mixes T1w (2 files) and T2w (1)" in refusal([bids / "sub-01" / "anat", bids / "sub-02" / BIDS[4][7:]])
    on_purpose = [f"{bids}/**/*_T1w.npy", f"{bids}/**/*_T2w.npy"]
    assert len(load(on_purpose)) == 6 * len(IMAGE)


def test_names_that_are_not_of_bids_are_not_judged(tmp_path):
    names = [
        *(f"sub-{name}.npy" for name in ("1_1", "1_slice2", "2_slice10", "3_ses-1")),
        "a_T1w.npy",
        "b_T2w.npy",
    ]
    write_all(tmp_path, names)
    assert len(load(tmp_path)) == len(names) * len(IMAGE)
    for place, pixels in enumerate(SERIES):
        write_dicom(tmp_path / "dicom" / f"sub-1_{'abcdef'[place]}.dcm", pixels, place)
    assert len(load(tmp_path / "dicom")) == len(SERIES)


def test_nothing_is_selected(bids, scans):
    present = "there are T1w (4 files), T2w (2) and bold (2)."
    assert refusal(bids, select=["T1w", "ses-03"]) == (
        f"`select` T1w ses-03 fits none of the 8 files of {bids}: {present}"
    )
    assert "fits none of the 2 files of a_1.npy and 1 more: one of them is a_1.npy." in refusal(
        ["a_1.npy", "b_1.npy"], select="*.mat"
    )
    assert "leave out `select`" in refusal("brain", select="T1w")
    assert "acdc:ROOT has a layout of its own" in refusal("acdc:more", select="T1w")


@pytest.mark.parametrize("value", [(), [""], 3, ["T1w", 3], True])
def test_words_that_cannot_be_selected(value):
    with pytest.raises(InputError, match="`select` must be parts of file names, such as T1w"):
        Reading(select=value)


def test_what_was_selected_is_remembered(bids, tmp_path):
    run = learn(bids, 4, steps=2, select="T1w", size=(8, 8))
    assert run.record.data.images == 2 * len(IMAGE)
    run = Run.load(run.save(tmp_path / "run"))
    assert run.config.select == ("T1w",)
    assert Config.from_dict(run.config.to_dict()) == run.config
    assert len(evaluate(run, bids).psnr) == 2 * len(IMAGE)  # of the other subject
    assert len(evaluate(run, bids, select=["T2w"]).psnr) == len(IMAGE)
    assert len(evaluate(run, bids / "sub-02", select="bold").psnr) == len(IMAGE)
    data = load(bids, Reading(select="T1w"))
    with pytest.raises(InputError, match="was loaded with `select`"):
        load(data, Reading(select="T2w"))


def test_the_cache_does_not_depend_on_what_was_selected(bids, monkeypatch):
    prepare(load(bids, Reading(select="T1w")))
    monkeypatch.setattr("promask.data.file_set._write", None)
    prepare(load(bids, Reading(select=["T1w", "ses-01"])))


# What promask has written


def test_runs_are_not_data(scans):
    learn("a_1.npy", 4, steps=2).save("more/run")
    with pytest.warns(InputWarning, match="Left out: more/run is a run of promask and not data"):
        assert numbers(load("more")) == [3]
    learn("a_1.npy", 4, steps=2).save("run")
    put(scans / "compared" / "compare.json", b"{}")
    write_all(scans / "compared", ["cells/energy/mask.npy"])
    everything = ["."], "**/*.npy", [*map(str, sorted(scans.rglob("*.npy")))]
    for data in everything:
        with pytest.warns(InputWarning, match="not data, and 2 more like it") as said:
            assert numbers(load(data)) == [0, 1, 2, 3]
        assert len(said) == 1
    write_all(scans / "other", ["run.json", "probabilities.npy"])  # no mask: not a run
    assert len(load("other")) == len(IMAGE)
    for data in ("run", "run/*.npy", "run/mask.npy", ["run", "compared"]):
        assert "run is a run of promask and holds no data: give images or k-space." in refusal(data)
    assert "compared is a comparison of promask and holds no data" in refusal("compared")
