"""A comparison as text, against numbers worked out by hand."""

import csv
import io
import math
import re

import numpy as np
import pytest
from comparisons import compared, row

from promask.cli.show import comparison_tables
from promask.cli.terminal import output
from promask.evaluation.bootstrap import advantages
from promask.evaluation.conventions import CONVENTIONS, METRICS
from promask.evaluation.tables import (
    Table,
    TableCell,
    escape_latex,
    latex,
    markdown,
    masks_csv,
    number_cell,
    quality_cells,
    records,
    summary_csv,
)
from promask.figures.comparison import quality_over_acceleration

pytestmark = pytest.mark.usefixtures("few_images_will_do")


def test_one_table_in_every_form():
    best = TableCell("31.00", 31.004, "2.83", best=True)
    table = Table(["mask", "PSNR"], [["a|b", best], ["c[d]", number_cell(None, ".2f")]])
    assert table.to_markdown() == "| mask | PSNR |\n| --- | ---: |\n| a\\|b | **31.00** ± 2.83 |\n| c[d] | - |"
    assert table.to_csv() == "mask,PSNR\na|b,31.004\nc[d],\n"
    assert table.to_latex() == [
        r"a\textbar{}b & \textbf{31.00} & {\scriptsize\,$\pm$\,2.83} \\",
        r"c[d] & - & \\",
    ]
    names, numbers = (list(column.cells) for column in table.to_rich().columns)
    assert [str(cell) for cell in (*names, *numbers)] == ["a|b", "c[d]", "31.00 ± 2.83", "-"]
    assert [cell.style for cell in numbers] == ["bold", ""]


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
    assert tables["x4"][2][:3] == [r"lines\_1", "4.1", "22.00 ± 1.41"]
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
        "+0.00, 1 of 2",
    ]
    assert "Worst, gaining: the difference of the image that gains least, and how many gain." in text
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
    assert [psnr.best for psnr, _, _ in quality_cells(rows, METRICS)] == [True, True, False]
    rows = [row("a", [[30]], nmse=[[0.02]]), row("b", [[30]], nmse=[[0.01]])]
    assert [nmse.best for _, _, nmse in quality_cells(rows, METRICS)] == [False, True]


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
    assert escape_latex("a_b & 5% of #1 ^ {x} ~ $ \\ < > |") == (
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
    expected = ["x4", "energy", "PSNR", "(dB)", "+1.00", "[+0.00,", "+2.00]", "+0.00,", "1", "of", "2"]
    assert expected in [line.split() for line in lines]
    table = next(comparison_tables(tiny))
    assert [cell.style for cell in table.columns[2].cells] == ["", "", "bold"]


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
