"""What is made of a comparison: intervals, tables and figures, against numbers worked out by hand."""

import csv
import io
import math
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
import torch

from helpers import smooth_images
from promask import metrics
from promask.conventions import CONVENTIONS
from promask.data import ArraySet
from promask.evaluation import reconstruct
from promask.experiments.bootstrap import Advantage, advantages, paired_interval
from promask.experiments.entries import quality_entries
from promask.experiments.figures import picture_grid, quality_over_acceleration
from promask.experiments.latex import escaped, latex
from promask.experiments.scores import Comparison, Scores
from promask.experiments.tables import markdown, masks_csv, records, summary_csv
from promask.geometry import Geometry
from promask.showing import comparison_tables
from promask.terminal import output


def row(method, psnr, acceleration=4.0, free=2, ssim=None, nmse=None, achieved=None):
    """Quality by seed and image; SSIM and NMSE follow from PSNR if they are not given."""
    psnr = np.array(psnr, dtype=float)
    quality = {
        "psnr": psnr,
        "ssim": psnr / 100 if ssim is None else np.array(ssim, dtype=float),
        "nmse": 1 / psnr if nmse is None else np.array(nmse, dtype=float),
    }
    seeds = len(psnr)
    achieved = [acceleration] * seeds if achieved is None else achieved
    return Scores(method, free, acceleration, achieved, [0.5 + seed for seed in range(seeds)], quality)


def compared(*scores, convention="paper"):
    subjects = ["one"] * scores[0].quality["psnr"].shape[1]
    return Comparison("my_data", convention, "2 held-out slices", subjects, scores)


@pytest.fixture(autouse=True)
def few_images_will_do(monkeypatch):
    for module in ("bootstrap", "tables"):
        monkeypatch.setattr(f"promask.experiments.{module}.FEWEST", 2)


def test_few_images_have_no_interval(monkeypatch):
    for module in ("bootstrap", "tables"):
        monkeypatch.setattr(f"promask.experiments.{module}.FEWEST", 3)
    comparison = compared(row("energy", [[28, 32]]), row("promask", [[30, 32]]))
    assert [each.interval for each in advantages(comparison)] == [None] * 3
    assert "From 2 images, no interval can be told." in markdown(comparison)


@pytest.fixture
def tiny():
    """Two seeds and two images; means over images 21 and 23, 30 and 30, 29 and 33 at x4."""
    return compared(
        row("lines_1", [[20, 22], [22, 24]], free=1, achieved=[4.0, 4.2]),
        row("energy", [[28, 32]]),
        row("promask", [[28, 30], [32, 34]]),
        row("energy", [[24, 26]], 8.0),
        row("promask", [[24, 26], [24, 26]], 8.0),
    )


def cells_of(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def markdown_tables(text):
    """The tables of a text, each a list of rows of cells, by the heading above."""
    found, heading = {}, ""
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|"):
            found.setdefault(heading, []).append(cells_of(line))
    return found


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_interval_is_that_of_scipy(level):
    differences = np.random.default_rng(3).exponential(size=40)
    expected = scipy.stats.bootstrap(
        (differences,), np.mean, n_resamples=40_000, confidence_level=level, method="percentile", rng=1
    ).confidence_interval
    found = paired_interval(differences, resamples=40_000, level=level)
    # The Monte Carlo error of a percentile of 40000 draws is about 1 % of the standard error.
    assert found == pytest.approx(tuple(expected), abs=0.05 * differences.std() / math.sqrt(40))


def test_images_of_a_subject_are_drawn_together():
    """20 subjects of 8 images that resemble each other: drawn one by one, images are too sure of themselves."""
    generator = np.random.default_rng(0)
    subjects = [f"subject{index // 8}" for index in range(160)]
    covered = {"together": 0, "alone": 0}
    for seed in range(200):
        values = generator.normal(0, 2, 20).repeat(8) + generator.normal(0, 1, 160)
        for how, known in (("together", subjects), ("alone", ["one"] * 160)):
            low, high = paired_interval(values, known, seed, resamples=400)
            covered[how] += low < 0 < high
    assert 0.85 < covered["together"] / 200 < 0.99
    assert covered["alone"] / 200 < 0.7


def test_subjects_of_different_sizes():
    """Against a bootstrap written out: draw subjects, put their images together, take the mean."""
    generator = np.random.default_rng(1)
    subjects = list("aaabbcddddee")
    differences = generator.normal(size=len(subjects))
    of_subject = [differences[[s == name for s in subjects]] for name in "abcde"]
    means = [np.concatenate([of_subject[i] for i in generator.integers(5, size=5)]).mean() for _ in range(20_000)]
    assert paired_interval(differences, subjects) == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.03)
    assert paired_interval(differences, ["a"] * 12) == paired_interval(differences)  # too few to be drawn


def test_interval_covers_the_true_mean_as_often_as_it_says():
    generator = np.random.default_rng(0)
    intervals = [paired_interval(generator.normal(0.3, 1, 40), (), seed, 500, 0.9) for seed in range(400)]
    covered = np.mean([low < 0.3 < high for low, high in intervals])
    assert 0.84 < covered < 0.94  # about 0.885 for 40 images, with a standard deviation of 0.016


def test_interval_is_the_same_however_it_is_computed(monkeypatch):
    differences = np.random.default_rng(1).normal(size=7)
    state = np.random.get_state()[1].copy()
    whole = paired_interval(differences, resamples=1000)
    assert np.array_equal(state, np.random.get_state()[1])
    assert paired_interval(differences, resamples=1000) == whole
    assert paired_interval(differences, seed=1, resamples=1000) != whole
    monkeypatch.setattr("promask.experiments.bootstrap.CHUNK", 7 * 30)
    in_chunks = paired_interval(differences, resamples=1000)
    assert in_chunks == pytest.approx(whole, abs=0.15)


def test_advantage_is_over_the_best_that_is_as_free_or_less(tiny):
    others = [
        row("lines:2d", [[50, 50]]),
        row("worse", [[10, 10]], free=1),
        row("promask:1d", [[23, 25]], free=1),
    ]
    found = {(each.method, each.acceleration, each.metric): each for each in advantages(tiny)}
    assert list(found) == [("promask", x, metric) for x in (4.0, 8.0) for metric in ("psnr", "ssim", "nmse")]
    psnr = found["promask", 4.0, "psnr"]
    # Means over seeds 30 and 32, those of the best other 28 and 32: differences 2 and 0.
    assert (psnr.other, psnr.mean, psnr.interval) == ("energy", 1, (0, 2))
    assert psnr.better is None
    found = {(each.method, each.metric): each for each in advantages(compared(*tiny.at(4.0), *others))}
    assert found["promask", "psnr"].other == "lines:2d"
    assert found["promask", "psnr"].mean == -19
    assert found["promask", "psnr"].better is False
    assert found["promask", "nmse"].mean > 0
    assert found["promask", "nmse"].better is False
    # Of rows with one free axis, lines_1 is best: means over seeds 21 and 23.
    lines = found["promask:1d", "psnr"]
    assert (lines.other, lines.mean, lines.interval, lines.better) == ("lines_1", 2, (2, 2), True)
    assert found["promask:1d", "nmse"].mean < 0
    assert found["promask:1d", "nmse"].better is True


@pytest.mark.parametrize(
    ("metric", "interval", "better"),
    [
        ("psnr", (0.1, 0.2), True),
        ("psnr", (-0.2, -0.1), False),
        ("psnr", (-0.1, 0.1), None),
        ("psnr", (0.0, 0.1), None),
        ("psnr", None, None),
        ("nmse", (-0.2, -0.1), True),
        ("nmse", (0.1, 0.2), False),
    ],
)
def test_better_means_that_the_whole_interval_says_so(metric, interval, better):
    assert Advantage("promask", 4, metric, "energy", 0.0, interval).better is better


def test_one_image_has_no_interval():
    found = advantages(compared(row("energy", [[30]]), row("promask", [[31]])))
    assert [(each.mean, each.interval) for each in found[:1]] == [(1, None)]
    text = markdown(compared(row("energy", [[30]]), row("promask", [[31]])))
    assert "| x4 | promask | PSNR (dB) | energy | +1.00 |" in text


def test_nothing_is_told_of_a_metric_that_is_not_defined():
    undefined = [[math.nan, math.nan]]
    comparison = compared(
        row("energy", [[30, 31]], ssim=undefined), row("promask", [[31, math.inf]], ssim=undefined)
    )
    assert [each.metric for each in advantages(comparison)] == ["nmse"]
    table = markdown_tables(markdown(comparison))["x4"]
    assert [line[3] for line in table[2:]] == ["-", "-"]
    assert [line[2] for line in table[2:]] == ["30.50", "**inf**"]
    lines = list(csv.DictReader(io.StringIO(summary_csv(comparison))))
    assert [line["ssim"] for line in lines] == ["", ""]
    assert [line["psnr"] for line in lines] == ["30.5", ""]
    assert " - & &" in latex(comparison)
    assert len(quality_over_acceleration(comparison).axes) == 2


def test_a_row_without_rivals_has_no_advantage(tiny):
    alone = compared(*(scores for scores in tiny.scores if scores.is_promask))
    assert advantages(alone) == []
    assert "minus" not in markdown(alone)


def test_markdown(tiny):
    text = markdown(tiny)
    tables = markdown_tables(text)
    assert list(tables) == ["x4", "x8", "promask minus the best other"]
    for table in tables.values():
        assert {len(line) for line in table} == {len(table[0])}
    assert tables["x4"][0] == [
        "method",
        "achieved acceleration",
        "PSNR (dB)",
        "SSIM",
        "NMSE",
        "seconds",
        "masks",
    ]
    # The means over images of promask are 29 and 33, so their standard deviation is 4 / sqrt 2.
    assert tables["x4"][2][:3] == ["lines_1", "4.1", "22.00 ± 1.41"]
    assert tables["x4"][3] == ["energy", "4", "30.00", "0.3000", "0.03348", "0.50", "1"]
    assert tables["x4"][4][:4] == ["promask", "4", "**31.00** ± 2.83", "**0.3100** ± 0.0283"]
    assert tables["x4"][4][5:] == ["1.00", "2"]
    assert [line[2] for line in tables["x8"][2:]] == ["**25.00**", "**25.00** ± 0.00"]
    assert tables["promask minus the best other"][2] == [
        "x4",
        "promask",
        "PSNR (dB)",
        "energy",
        "+1.00 [+0.00, +2.00]",
    ]
    assert tables["promask minus the best other"][4][4].startswith("-0.00")
    assert CONVENTIONS["paper"].sentence in text
    assert "2 held-out slices" in text
    assert "± is the standard deviation" in text


def test_one_mask_of_each_has_no_spread(tiny):
    single = compared(row("energy", [[28, 32]]), row("promask", [[28, 34]]))
    for text in (markdown(single), latex(single)):
        assert "±" not in text
        assert "pm" not in text
    assert "masks |" not in markdown(single)
    assert records(single)[0]["psnr_std"] is None


def test_the_sentence_is_that_of_the_convention(tiny):
    whole = compared(*tiny.scores, convention="fastmri")
    assert CONVENTIONS["fastmri"].sentence in markdown(whole)
    assert "paired by volume" in markdown(whole)


def test_what_prints_alike_is_equally_good():
    rows = [row("a", [[30.001]]), row("b", [[30.004]]), row("c", [[29.9]])]
    assert [entries["psnr"].best for entries in quality_entries(rows)] == [True, True, False]
    rows = [row("a", [[30]], nmse=[[0.02]]), row("b", [[30]], nmse=[[0.01]])]
    assert [entries["nmse"].best for entries in quality_entries(rows)] == [False, True]


def columns_of(line):
    """How many columns a row of LaTeX fills."""
    spans = [int(span) for span in re.findall(r"\\multicolumn\{(\d+)\}", line)]
    return 1 + len(re.findall(r"(?<!\\)&", line)) + sum(spans) - len(spans)


def test_latex(tiny):
    text = latex(compared(*tiny.scores, row("a&b%_#", [[1, 2]], 8.0)))
    specification = re.search(r"\\begin\{tabular\}\{(.*)\}", text).group(1).replace("@{}", "")
    assert specification == "l" + 2 * "rrlrlrl"
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 2 + 4
    assert {columns_of(line) for line in rows} == {len(specification)}
    assert r"\cmidrule(lr){2-8} \cmidrule(lr){9-15}" in text
    assert r"\multicolumn{7}{c}{\textbf{\texttt{x4}}}" in text
    assert r"promask & 4 & \textbf{31.00} & {\scriptsize\,$\pm$\,2.83} &" in text
    assert r"energy & 4 & 30.00 & &" in text
    assert r"lines\_1 & 4.1 & " in text
    assert r"a\&b\%\_\# &  & & & & & & & 8 & 1.50" in text
    caption = next(line for line in text.splitlines() if line.startswith(r"\caption"))
    assert r"my\_data" in caption
    assert CONVENTIONS["paper"].sentence in caption
    assert text.startswith("% ")
    for left, right in ("{}", ("\\begin", "\\end")):
        assert text.replace(r"\{", "").count(left) == text.replace(r"\}", "").count(right)


def test_nothing_is_special_to_latex():
    assert escaped("a_b & 5% of #1 ^ {x} ~ $ \\ < > |") == (
        r"a\_b \& 5\% of \#1 \textasciicircum{} \{x\} \textasciitilde{} \$ \textbackslash{} "
        r"\textless{} \textgreater{} \textbar{}"
    )


def test_csv_holds_all_digits(tiny):
    lines = list(csv.DictReader(io.StringIO(summary_csv(tiny))))
    assert [(line["method"], float(line["acceleration"])) for line in lines] == [
        (scores.method, scores.acceleration) for scores in tiny.scores
    ]
    promask = lines[2]
    assert promask["data"] == "my_data"
    assert float(promask["psnr"]) == 31
    assert float(promask["psnr_std"]) == math.sqrt(8)
    assert float(promask["nmse"]) == np.mean([1 / 28, 1 / 30, 1 / 32, 1 / 34])
    assert float(promask["seconds"]) == 1
    assert (promask["masks"], lines[1]["masks"], lines[1]["psnr_std"]) == ("2", "1", "")
    assert float(lines[0]["achieved"]) == 4.1


def test_csv_of_masks(tiny):
    lines = list(csv.DictReader(io.StringIO(masks_csv(tiny))))
    assert len(lines) == 2 + 1 + 2 + 1 + 2
    assert [(line["method"], line["mask"]) for line in lines[:3]] == [
        ("lines_1", "0"),
        ("lines_1", "1"),
        ("energy", "0"),
    ]
    assert [float(line["psnr"]) for line in lines[:5]] == [21, 23, 30, 29, 33]
    assert [float(line["achieved"]) for line in lines[:2]] == [4, 4.2]
    assert float(lines[0]["nmse"]) == np.mean([1 / 20, 1 / 22])
    assert [float(line["seconds"]) for line in lines[:2]] == [0.5, 1.5]


def test_terminal(tiny):
    with output.capture() as capture:
        output.print(*comparison_tables(tiny), sep="\n")
    lines = capture.get().splitlines()
    assert lines[0].split() == ["x4", "achieved", "PSNR", "(dB)", "SSIM", "NMSE", "seconds", "masks"]
    assert lines[3].split()[:5] == ["promask", "4", "31.00", "±", "2.83"]
    assert "…" not in capture.get()
    assert any(line.split() == ["x4", "energy", "PSNR", "(dB)", "+1.00", "[+0.00,", "+2.00]"] for line in lines)
    table = next(comparison_tables(tiny))
    assert [cell.style for cell in table.columns[2].cells] == ["", "", "bold"]


def test_lines_and_bands_are_means_and_deviations(tiny):
    figure = quality_over_acceleration(tiny)
    assert [axes.get_title() for axes in figure.axes] == ["PSNR (dB) ↑", "SSIM ↑", "NMSE ↓"]
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "linear", "log"]
    axes = figure.axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines) == ["lines_1", "energy", "promask"]
    assert lines["promask"].get_xydata().tolist() == [[4, 31], [8, 25]]
    assert lines["lines_1"].get_xydata().tolist() == [[4.1, 22]]
    assert lines["lines_1"].get_linestyle() == "--"
    assert lines["promask"].get_linestyle() == "-"
    assert all(
        lines["promask"].get_zorder() > line.get_zorder()
        and lines["promask"].get_linewidth() > line.get_linewidth()
        for name, line in lines.items()
        if name != "promask"
    )
    band = axes.collections[-1].get_paths()[0].vertices
    deviation = math.sqrt(8)
    for corner in ([4, 31 - deviation], [4, 31 + deviation], [8, 25]):
        assert np.isclose(band, corner).all(1).any()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x4", "x8"]
    assert axes.get_xticks().tolist() == [4, 8]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["lines_1", "energy", "promask"]


def test_twenty_methods_can_be_told_apart():
    names = [f"method{number}" for number in range(17)] + ["promask:1d", "promask:ssim", "promask"]
    figure = quality_over_acceleration(compared(*(row(name, [[30]]) for name in names)))
    lines = figure.axes[0].lines
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 20
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert legend.y0 >= 0
    assert legend.y1 <= figure.bbox.height
    assert legend.x0 >= max(axes.get_window_extent().x1 for axes in figure.axes)


def test_one_acceleration_shows_points_and_their_deviation(tiny):
    axes = quality_over_acceleration(compared(*tiny.at(4.0))).axes[0]
    assert all(line.get_marker() != "None" for line in axes.lines)
    assert axes.get_xlim() == (2, 8)
    bar = axes.collections[-1].get_segments()[0]
    assert np.allclose(bar, [[4, 31 - math.sqrt(8)], [4, 31 + math.sqrt(8)]])


def random_masks(shape, names, accelerations):
    generator = torch.Generator().manual_seed(0)
    return {name: {x: torch.rand(shape, generator=generator) < 1 / x for x in accelerations} for name in names}


def shown_in(figure):
    return [(np.asarray(axes.images[0].get_array()), axes.get_xlabel()) for axes in figure.axes]


def test_grid_of_pictures():
    images = smooth_images(2, 2, (20, 16)).to(torch.complex64)
    data = ArraySet(images, "test", geometry=Geometry(region=(16, 16)))
    masks = random_masks((20, 16), ["energy", "promask"], [2.0, 4.0])
    del masks["energy"][4.0]
    figure = picture_grid(masks, data, 1)
    shown = shown_in(figure)
    assert len(shown) == 2 * (2 + 3)
    target = images[1].abs()[:, 2:18]
    assert np.allclose(shown[0][0], target[0].numpy())
    assert shown[0][1] == "fully sampled"
    image, _ = reconstruct(masks["promask"][4.0], data, range(1, 2))
    assert np.array_equal(shown[-2][0], image[0, 0].numpy())
    quality = [float(metric(image, target[None])) for metric in (metrics.psnr, metrics.ssim)]
    assert shown[-2][1] == f"{quality[0]:.1f} dB   SSIM {quality[1]:.3f}"
    assert np.array_equal(shown[-1][0], masks["promask"][4.0].numpy())
    assert shown[-1][1] == f"x{320 / int(masks['promask'][4.0].sum()):.4g}"
    windows = {axes.images[0].get_clim() for axes in figure.axes[::2]}
    assert len(windows) == 1
    assert windows.pop()[0] == 0
    assert [text.get_text() for text in figure.texts] == ["x2", "x4", "energy", "promask"]


def test_grid_of_pictures_does_not_overlap():
    data = ArraySet(smooth_images(1, 1, (12, 30)).to(torch.complex64), "test")
    figure = picture_grid(random_masks((12, 30), list("abc"), [2.0, 4.0, 8.0]), data, 0)
    figure.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    assert all(box.y0 >= 0 and box.y1 <= figure.bbox.height for box in boxes)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_grid_of_volumes_shows_the_middle_plane():
    images = smooth_images(1, 1, (5, 8, 9)).to(torch.complex64)
    masks = random_masks((5, 8, 9), ["promask"], [2.0])
    shown = shown_in(picture_grid(masks, ArraySet(images, "test"), 0))
    assert np.allclose(shown[0][0], images[0, 0, 2].abs().numpy())
    assert np.array_equal(shown[3][0], masks["promask"][2.0][2].numpy())
    assert shown[2][1].endswith(" dB")  # too few planes for SSIM


def test_matplotlib_is_not_imported_before_it_is_needed():
    code = (
        "import sys, promask.experiments.figures, promask.experiments.tables, promask.experiments.latex\n"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
