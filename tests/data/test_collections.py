"""What holds for every collection."""

import json

import pytest
from layouts import BEFORE_2023, TABLE, challenge, decathlon, patient, refusal, scan

from promask.cli.main import main
from promask.data.sources import COLLECTIONS


@pytest.mark.parametrize(
    ("collection", "learned", "held_out"),
    [("acdc", (9, 3), 2), ("brats", (2, 2), 1), ("fastmri", (12, 3), 6), ("fastmri+", (1, 1), 1)],
)
def test_command_line(request, undrawn, few_references, tmp_path, capsys, collection, learned, held_out):
    more = []
    if collection == "acdc":
        root = request.getfixturevalue("database")
    elif collection == "brats":
        root, more = decathlon(tmp_path / "brains"), ["--slices", "70:71"]
    else:
        root = request.getfixturevalue("knees")
        (root / "knee.csv").write_text(TABLE)
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as stop:
        main(["learn", f"{collection}:{root}", "--accel", "8", "--steps", "3", "--out", str(out), *more])
    assert stop.value.code == 0, capsys.readouterr().err
    about = json.loads((out / "run.json").read_text())["about"]
    assert about["data"]["source"] == f"{collection}:{root}"
    assert (about["data"]["part"], about["data"]["images"], about["data"]["groups"]) == ("train", *learned)
    assert (about["evaluation"]["part"], about["evaluation"]["images"]) == ("test", held_out)


def test_refusals(tmp_path):
    wanted = ["patient001", "dataset.json", "singlecoil_train", "singlecoil_train"]
    for collection, word in zip(COLLECTIONS, wanted, strict=True):
        (tmp_path / collection).mkdir()
        assert word in refusal(f"{collection}:{tmp_path / collection}")
    patient(tmp_path, 1)
    challenge(tmp_path, BEFORE_2023)
    scan(tmp_path / "file1000000.h5")
    (tmp_path / "knee.csv").write_text(TABLE)
    for collection in COLLECTIONS:
        assert "leave out the volumes" in refusal(f"{collection}:{tmp_path}", volumes=True)
