"""A comparison by what a network finds: cells, folders and tables (the paper's Table 2)."""

import csv
import io
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from comparisons import compared_by_segmentation, found_row, heart_file, heart_network, image_file

from promask.baselines import BASELINES
from promask.cli.main import main
from promask.cli.show import comparison_tables
from promask.cli.terminal import output
from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.errors import InputError
from promask.evaluation.bootstrap import advantages, paired_interval
from promask.evaluation.evaluate import evaluate
from promask.evaluation.methods import Method, parse_methods, usual_methods
from promask.evaluation.tables import differences, latex, markdown, masks_csv, records, summary_csv
from promask.figures.comparison import quality_over_acceleration
from promask.report.comparison import compare

SEGMENTATION = {"task": "segmentation", "seeds": 2, "learned_seeds": 1}


@pytest.fixture(scope="module")
def network():
    return heart_network(steps=25)


@pytest.fixture
def data(tmp_path):
    return heart_file(tmp_path / "hearts.npz")


@pytest.fixture
def file(network, tmp_path):
    return network.save(tmp_path / "unet.safetensors")


# Names


def test_a_loss_is_named_where_it_is_not_the_usual_one():
    texts = ["promask", "promask:mse", "promask:1d:segmentation", "igs", "igs:mse", "greedy:ssim", "energy"]
    methods = parse_methods(texts, None, "segmentation")
    assert [method.label for method in methods] == [
        "promask",
        "promask:mse",
        "promask:1d",
        "igs",
        "igs:mse",
        "greedy:ssim",
        "energy",
    ]
    assert [method.loss for method in methods[:3]] == ["segmentation", "mse", "segmentation"]
    assert [method.learns_for_task for method in methods[:3]] == [True, False, True]
    again = parse_methods([method.label for method in methods], None, "segmentation")
    assert again == methods
    assert parse_methods(["promask"], "mse", "segmentation")[0].label == "promask:mse"
    assert parse_methods(["promask"], None)[0] == Method("promask", "2d", "mse")


def test_usual_methods_are_cheap():
    methods = usual_methods(None, 2, "segmentation")
    labels = {method.label for method in methods}
    assert labels >= {"energy", "energy:1d", "igs:mse", "promask:1d:mse", "promask:mse", "promask:1d", "promask"}
    assert labels >= {
        name
        for name, baseline in BASELINES.items()
        if baseline.draws and not (baseline.learns or baseline.for_coils or baseline.usual in ("kt", "radial"))
    }
    assert not {method.name for method in methods} & {"loupe", "greedy"}


@pytest.mark.parametrize(
    ("text", "task", "sentence"),
    [
        (
            "loupe",
            "segmentation",
            "loupe learns from a loss of images, and not from segmentation",
        ),
        (
            "promask:segmentation",
            "reconstruction",
            "Unknown variant 'segmentation' of promask: choose from",
        ),
        (
            "energy:mse",
            "segmentation",
            "Unknown variant 'mse' of energy: choose from 1d, 2d, 3d, kt, kt-2d, equal.",
        ),
        ("promask:mse:segmentation", "segmentation", "asks for two things at once"),
        ("promask", "registration", "Unknown task 'registration': choose one of reconstruction, segmentation."),
    ],
)
def test_methods_that_do_not_exist(text, task, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        Method.parse(text, task=task)
    assert Method.parse("loupe:ssim", task="segmentation").label == "loupe:ssim"


# Cells and folders


def test_numbers_are_those_of_evaluate(data, file, network, tmp_path):
    out = tmp_path / "out"
    methods = ["random", "energy:1d", "promask:mse", "igs", "promask"]
    comparison = compare(data, [2, 4], methods, out=out, network=file, **SEGMENTATION)
    held_out = choose_part(load(data), "test", "test")[0]
    for scores in comparison.scores:
        for seed in range(scores.masks):
            name = f"{scores.method.replace(':', '-')}-{seed}.npy"
            mask = np.load(out / "masks" / f"x{scores.acceleration:g}" / name)
            found = evaluate(mask, held_out, "all", network=network)
            expected = found.segmented.with_mask
            for metric, values in (
                ("dice", expected.dice.nanmean(1)),
                ("wall_dice", expected.dice[:, 0]),
                ("cavity_dice", expected.dice[:, 1]),
                ("iou", expected.iou.nanmean(1)),
                ("wall_iou", expected.iou[:, 0]),
                ("cavity_iou", expected.iou[:, 1]),
            ):
                np.testing.assert_allclose(scores.quality[metric][seed], values.numpy())
            summary = found.summary()
            full = comparison.full
            assert full.mean("dice") == pytest.approx(summary["dice_full"])
            assert full.mean("cavity_iou") == pytest.approx(summary["classes"]["cavity"]["iou_full"])
            if scores.masks == 1:
                assert scores.mean("dice_kept") == pytest.approx(summary["dice_kept"])
                cavity = summary["classes"]["cavity"]
                assert scores.mean("cavity_dice_kept") == pytest.approx(cavity["dice"] / cavity["dice_full"])
    assert {path.stem for path in (out / "figures").iterdir()} == {"quality", "reconstructions", "contours"}
    for path in (out / "cells").rglob("*.json"):
        assert "NaN" not in path.read_text()
    by_method = {scores.method: scores for scores in comparison.at(4.0)}
    assert list(by_method) == methods
    assert [scores.is_proposed for scores in by_method.values()] == [False, False, False, False, True]


@pytest.mark.usefixtures("undrawn")
def test_methods_learn_for_the_network(data, file, tmp_path):
    """Another loss is another mask, and the file of another loss has another name."""
    out = tmp_path / "out"
    compare(data, [4], ["igs:2d", "igs:2d:mse", "greedy", "greedy:mse"], out=out, network=file, **SEGMENTATION)
    masks = {path.stem: np.load(path) for path in (out / "masks").rglob("*.npy")}
    assert set(masks) == {"igs-2d-0", "igs-2d-mse-0", "greedy-0", "greedy-mse-0"}
    assert (masks["igs-2d-0"] != masks["igs-2d-mse-0"]).any()
    assert (masks["greedy-0"] != masks["greedy-mse-0"]).any()


@pytest.mark.usefixtures("undrawn")
def test_interrupted_and_started_again(data, file, network, tmp_path, monkeypatch):
    """With the same network, wherever it lies; nothing is made twice."""
    made = []
    make = Method.mask
    monkeypatch.setattr(Method, "mask", lambda self, problem: made.append(self.label) or make(self, problem))
    out = tmp_path / "out"
    first = compare(data, [4], ["random", "energy"], out=out, network=file, **SEGMENTATION)
    moved = network.save(tmp_path / "elsewhere.safetensors")
    again = compare(data, [4], ["energy", "centre", "random"], out=out, network=moved, **SEGMENTATION)
    compare(data, [4], ["energy"], out=out, network=network, **SEGMENTATION)
    assert sorted(made) == ["centre", "energy", "random", "random"]
    assert np.array_equal(first.scores[0].quality["dice"], again.scores[2].quality["dice"])


@pytest.mark.usefixtures("undrawn")
def test_other_conditions_need_another_folder(data, file, tmp_path):
    out = tmp_path / "out"
    compare(data, [4], ["energy"], out=out, network=file, **SEGMENTATION)
    other = heart_network(seed=9).save(tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="holds a comparison with another network: choose another folder"):
        compare(data, [4], ["energy"], out=out, network=other, **SEGMENTATION)
    with pytest.raises(InputError, match="holds a comparison of segmentations: choose another folder"):
        compare(data, [4], ["energy"], out=out)
    content = dict(np.load(data))
    content["label"][3, 12, 10] = 0
    np.savez(tmp_path / "changed.npz", **content)
    with pytest.raises(InputError, match="a comparison of other data"):
        compare(str(tmp_path / "changed.npz"), [4], ["energy"], out=out, network=file, **SEGMENTATION)


@pytest.mark.usefixtures("undrawn")
def test_folders_of_reconstructions_are_what_they_were(data, file, tmp_path):
    """Also those from before there were networks."""
    out = tmp_path / "out"
    compare(data, [4], ["energy"], out=out)
    with pytest.raises(InputError, match="holds a comparison of reconstructions: choose another folder"):
        compare(data, [4], ["energy"], out=out, network=file, **SEGMENTATION)
    conditions = json.loads((out / "compare.json").read_text())
    del conditions["network"]
    (out / "compare.json").write_text(json.dumps(conditions))
    before = (out / "masks" / "x4" / "energy-0.npy").stat().st_mtime_ns
    compare(data, [4], ["energy"], out=out)
    assert (out / "masks" / "x4" / "energy-0.npy").stat().st_mtime_ns == before


@pytest.mark.usefixtures("undrawn")
def test_other_processes_open_the_network(data, file, tmp_path, quick_processes):
    settings = {"network": file, **SEGMENTATION}
    one = compare(data, [4], ["random", "energy"], out=tmp_path / "one", **settings)
    two = compare(data, [4], ["random", "energy"], out=tmp_path / "two", jobs=2, **settings)
    for here, there in zip(one.scores, two.scores, strict=True):
        assert np.array_equal(here.quality["dice"], there.quality["dice"])


def test_held_out_images_without_labels_of_the_classes(file, tmp_path):
    path = heart_file(tmp_path / "hearts.npz")
    content = dict(np.load(path))
    content["label"][:] = 7
    np.savez(path, **content)
    with pytest.raises(InputError, match=r"in none of the held-out images is there a label of .* wall, cavity"):
        compare(path, [4], ["energy"], out=tmp_path / "out", network=file, **SEGMENTATION)
    assert not (tmp_path / "out").exists()


# Tables


def tiny_comparison(**settings):
    """Two seeds; two images, of which the second has no cavity. Fully sampled: 0.8 and 0.9 on average."""
    nan = math.nan
    full = {"dice": [0.7, 0.9], "wall_dice": [0.6, 0.9], "cavity_dice": [0.8, nan]}
    energy = found_row("energy", {"dice": [[0.5, 0.7]], "wall_dice": [[0.4, 0.7]], "cavity_dice": [[0.6, nan]]})
    mse = {"dice": [[0.6, 0.7]], "wall_dice": [[0.6, 0.7]], "cavity_dice": [[0.6, nan]]}
    own = {
        "dice": [[0.6, 0.8], [0.7, 0.9]],
        "wall_dice": [[0.5, 0.8], [0.6, 0.9]],
        "cavity_dice": [[0.7, nan], [0.9, nan]],
    }
    rows = [energy, found_row("promask:mse", mse, for_task=False), found_row("promask", own)]
    return compared_by_segmentation(full, *rows, **settings)


def cells_of(line):
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_markdown_has_the_fully_sampled_score_on_top():
    text = markdown(tiny_comparison())
    tables = {}
    for line in text.splitlines():
        if line.startswith("#"):
            tables[line.lstrip("# ")] = lines = []
        elif line.startswith("|"):
            lines.append(cells_of(line))
    assert list(tables) == ["x8", "x8, wall", "x8, cavity", "promask minus the best other"]
    columns = ["method", "achieved acceleration", "Dice", "Dice kept", "IoU", "seconds", "masks"]
    assert all(tables[name][0] == columns for name in list(tables)[:3])
    assert tables["x8"][2][:4] == ["fully sampled", "1", "0.8000", "100.0%"]
    assert tables["x8"][2][5:] == ["-", "-"]
    assert tables["x8"][3][:4] == ["energy", "8", "0.6000", "75.0%"]
    # The means over images are 0.7 and 0.8, so that 7/8 and 1 of 0.8 are kept.
    assert tables["x8"][5][:4] == ["promask", "8", "**0.7500** ± 0.0707", "**93.8%** ± 8.8%"]
    assert tables["x8, cavity"][2][2:4] == ["0.8000", "100.0%"]
    assert tables["x8, cavity"][3][2:4] == ["0.6000", "75.0%"]
    assert tables["x8, cavity"][5][2:4] == ["**0.8000** ± 0.1414", "**100.0%** ± 17.7%"]
    best = [line for name in list(tables)[:3] for line in tables[name] if line[0] == "fully sampled"]
    assert not any("**" in cell for line in best for cell in line)
    # promask that was learned for the image is one of the others.
    assert tables["promask minus the best other"][2][:5] == ["x8", "promask", "Dice", "promask:mse", "+0.1000"]
    assert {line[1] for line in tables["promask minus the best other"][2:]} == {"promask"}
    assert "Dice, cavity" in {line[2] for line in tables["promask minus the best other"]}
    assert not any("kept" in line[2] for line in tables["promask minus the best other"])
    assert "is better" not in text
    assert "an image counts for a class that is in it" in text


def test_one_class_has_one_table():
    comparison = compared_by_segmentation(
        {"dice": [0.8]}, found_row("energy", {"dice": [[0.4]]}), classes=("lesion",)
    )
    text = markdown(comparison)
    assert re.findall("### .*", text) == ["### x8"]
    assert "| energy | 8 | **0.4000** | **50.0%** | **0.2500** |" in text
    assert len(quality_over_acceleration(comparison).axes) == 2


def test_latex_has_rows_for_each_class():
    text = latex(tiny_comparison())
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 2 + 4 + 2 * (1 + 4)
    specification = re.search(r"\\begin\{tabular\}\{(.*)\}", text).group(1).replace("@{}", "")
    for line in rows:
        spans = [int(span) for span in re.findall(r"\\multicolumn\{(\d+)\}", line)]
        assert 1 + len(re.findall(r"(?<!\\)&", line)) + sum(spans) - len(spans) == len(specification)
    assert r"\multicolumn{8}{l}{\textit{wall}} \\" in text
    assert r"fully sampled & 1 & 0.8000 & & 100.0\% & &" in text
    assert r"promask & 8 & \textbf{0.7500} & {\scriptsize\,$\pm$\,0.0707} & \textbf{93.8\%} &" in text
    assert r"\textit{Dice kept} $\uparrow$" in text
    assert "Quality of segmentation" in text
    assert not re.search(r"(?<!\\)%(?! \\usepackage|$)", text.replace("{!}{%", ""))


def test_numbers_for_programs():
    comparison = tiny_comparison()
    lines = list(csv.DictReader(io.StringIO(summary_csv(comparison))))
    assert [line["method"] for line in lines] == ["fully sampled", "energy", "promask:mse", "promask"]
    assert (lines[0]["masks"], lines[0]["seconds"]) == ("0", "")
    assert float(lines[3]["dice_kept"]) == pytest.approx(0.75 / 0.8)
    assert float(lines[3]["cavity_dice"]) == pytest.approx(0.8)
    assert float(lines[3]["cavity_dice_kept_std"]) == pytest.approx(math.sqrt(0.02) / 0.8)
    assert float(lines[1]["wall_iou"]) == pytest.approx((0.25 + 0.7 / 1.3) / 2)
    json.dumps(records(comparison), allow_nan=False)
    json.dumps(differences(comparison), allow_nan=False)
    masks = list(csv.DictReader(io.StringIO(masks_csv(comparison))))
    assert [float(line["cavity_dice"]) for line in masks] == pytest.approx([0.6, 0.6, 0.7, 0.9])


def test_terminal():
    with output.capture() as capture:
        output.print(*comparison_tables(tiny_comparison()), sep="\n")
    lines = [line.split() for line in capture.get().splitlines()]
    assert lines[0] == ["x8", "achieved", "Dice", "Dice", "kept", "IoU", "seconds", "masks"]
    assert lines[1][:5] == ["fully", "sampled", "1", "0.8000", "100.0%"]
    assert ["x8,", "cavity", "achieved", "Dice", "Dice", "kept", "IoU", "seconds", "masks"] in lines
    assert ["x8", "energy", "Dice,", "cavity", "+0.2000"] in [line[:5] for line in lines]
    table = next(comparison_tables(tiny_comparison()))
    assert [cell.style for cell in table.columns[2].cells] == ["", "", "", "bold"]


def test_images_without_a_score_do_not_count_in_intervals():
    """Those of every other subject have none: as if they had never been there."""
    generator = np.random.default_rng(0)
    subjects = [f"subject{number // 2}" for number in range(40)]
    scored = np.arange(40) % 4 < 2
    values = np.where(scored, generator.uniform(0.5, 0.9, (2, 40)), math.nan)
    full = {"dice": np.where(scored, 0.9, math.nan)}
    rows = [found_row(name, {"dice": [each]}) for name, each in zip(("energy", "promask"), values, strict=True)]
    comparison = compared_by_segmentation(full, *rows, classes=("lesion",), subjects=subjects)
    found = {each.metric: each for each in advantages(comparison)}
    assert list(found) == ["dice", "iou"]
    gains = (values[1] - values[0])[scored]
    assert found["dice"].mean == pytest.approx(gains.mean())
    kept = [subject for subject, has in zip(subjects, scored, strict=True) if has]
    assert found["dice"].interval == paired_interval(gains, kept)
    nothing = [replace(row, quality={name: each * math.nan for name, each in row.quality.items()}) for row in rows]
    empty = compared_by_segmentation(full, *nothing, classes=("lesion",), subjects=subjects)
    assert advantages(empty) == []
    assert "| energy | 8 | - | - | - |" in markdown(empty)


def test_curves_with_the_fully_sampled_score():
    figure = quality_over_acceleration(tiny_comparison())
    assert [axes.get_title() for axes in figure.axes] == [
        "Dice ↑",
        "IoU ↑",
        "Dice, wall ↑",
        "IoU, wall ↑",
        "Dice, cavity ↑",
        "IoU, cavity ↑",
    ]
    line = figure.axes[4].lines[0]
    assert line.get_label() == "fully sampled"
    assert np.allclose(line.get_ydata(), 0.8)
    assert line.is_dashed()
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["fully sampled", "energy", "promask:mse", "promask"]


# The command line


@pytest.mark.usefixtures("undrawn")
def test_command_line(data, file, tmp_path, capsys):
    words = ["compare", data, "--task", "segmentation", "--network", str(file), "--accel", "2", "4"]
    words += ["--methods", "random", "energy", "--seeds", "2", "--jobs", "1", "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as end:
        main([*words, "--json"])
    assert end.value.code == 0
    content = json.loads(capsys.readouterr().out)
    assert [(row["method"], row["acceleration"]) for row in content["rows"]] == [
        ("fully sampled", 1.0),
        ("random", 2.0),
        ("energy", 2.0),
        ("random", 4.0),
        ("energy", 4.0),
    ]
    assert 0 < content["rows"][1]["dice_kept"] < 1.2
    with pytest.raises(SystemExit):
        main(words)
    assert str(tmp_path / "out" / "figures" / "contours.png") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (["--task", "segmentation"], "A segmentation needs a network: give one with --network."),
        (
            ["--network", "unet.safetensors"],
            "A reconstruction uses no network: leave it out, or choose the --task segmentation.",
        ),
        (["--task", "registration"], "Unknown task 'registration': choose one of reconstruction, segmentation."),
        (["--task", "segmentation", "--network", "nowhere.safetensors"], "nowhere.safetensors is not a file"),
        (["--task", "segmentation", "--network", "damaged.safetensors"], "damaged.safetensors is damaged"),
        (["--task", "segmentation", "--network", "two.safetensors"], "The network is for images with 2 channels"),
        (["--task", "segmentation", "--network", "unet.safetensors", "--methods", "loupe"], "loupe learns from"),
        (["--task", "segmentation", "--network", "unet.safetensors", "--loss", "nice"], "Unknown loss 'nice'"),
    ],
)
def test_command_line_says_what_is_wrong(change, sentence, data, file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    heart_network(channels=2).save(tmp_path / "two.safetensors")
    (tmp_path / "damaged.safetensors").write_bytes(file.read_bytes()[:1000])
    words = ["compare", data, "--accel", "4", "--jobs", "1", "--out", "out"]
    with pytest.raises(SystemExit) as end:
        main([*words, *(["--methods", "energy"] if "--methods" not in change else []), *change])
    assert end.value.code == 2
    messages = capsys.readouterr().err
    assert sentence in messages
    assert sum("promask: images: " not in line for line in messages.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_data_without_labels(file, tmp_path, capsys):
    words = ["compare", image_file(tmp_path / "images.npz"), "--accel", "4", "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as end:
        main([*words, "--methods", "energy", "--task", "segmentation", "--network", str(file)])
    assert end.value.code == 2
    assert "has no label: a segmentation needs labels of all samples" in capsys.readouterr().err
