"""The report in a real browser: pointing, sliding, sorting, copying."""

import csv

import numpy as np
import pytest
from reports import measured_run

from promask.report.page import write_report


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run, _, measurements = measured_run(members=2)
    run.save(folder / "run")
    return run, measurements, write_report(run, folder / "run", measurements)


@pytest.fixture
def page(tab, written):
    asked = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(written[2].as_uri())
    tab.wait_for_selector("html[data-ready=yes]")
    yield tab
    assert all(address.startswith(("file:", "data:", "blob:")) for address in asked), asked


def column(page, table, place):
    return page.locator(f"#{table} tbody tr").evaluate_all(
        f"rows => rows.map(row => row.cells[{place}].innerText)"
    )


def test_pointing_at_a_place_tells_its_value(page, written):
    run = written[0]
    box = page.locator("#probabilities-map").bounding_box()
    height, width = run.mask.shape
    for row, place in ((12, 10), (3, 15), (20, 2)):
        position = {"x": (place + 0.5) / width * box["width"], "y": (row + 0.5) / height * box["height"]}
        page.hover("#probabilities-map", position=position)
        said = page.inner_text("#readout")
        assert f"kx {place - width // 2}, ky {row - height // 2}:" in said
        assert f"probability {float(run.probabilities[row, place]):.3f} ±" in said
        assert ("not acquired" in said) == (not run.mask[row, place])


def test_arrow_keys_move_over_kspace(page, written):
    page.focus("#mask-map")
    assert page.inner_text("#readout").startswith("kx 0, ky 0:")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Shift+ArrowLeft")
    assert page.inner_text("#readout").startswith("kx -9, ky -1:")


def test_pictures_of_kspace_have_the_right_pixels(page, written):
    run = written[0]
    shown = page.evaluate(
        "() => { const map = document.getElementById('mask-map');"
        "return [...map.getContext('2d').getImageData(0, 0, map.width, map.height).data]; }"
    )
    np.testing.assert_array_equal(np.array(shown).reshape(*run.mask.shape, 4)[..., 0] == 255, run.mask.numpy())


def cut(page):
    return page.evaluate("() => getComputedStyle(document.getElementById('wipe')).getPropertyValue('--cut')")


def test_the_slider_wipes_by_pointer_and_by_key(page):
    page.locator("#wipe").scroll_into_view_if_needed()
    box = page.locator("#wipe").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 20)
    page.mouse.up()
    assert float(cut(page).rstrip("%")) == pytest.approx(75, abs=1)
    page.focus("#slider")
    page.keyboard.press("Home")
    assert cut(page) == "0%"
    page.keyboard.press("End")
    assert cut(page) == "100%"
    clip = page.evaluate("() => getComputedStyle(document.getElementById('wipe-before')).clipPath")
    assert "0px" in clip
    assert "100%" not in clip.replace("calc(0%)", "")


def test_what_is_compared_can_be_chosen(page, written):
    measurements = written[1]
    assert page.input_value("#after") == "promask"
    before = page.get_attribute("#wipe-before", "src")
    page.select_option("#before", "energy")
    assert page.get_attribute("#wipe-before", "src") != before
    assert "energy" in page.inner_text("#caption-before")
    page.select_option("#before", "")
    assert page.inner_text("#caption-before") == "fully sampled"
    assert page.locator("#error-before").evaluate("image => image.style.visibility") == "hidden"
    assert page.locator("#example option").count() == len(measurements.examples)


def test_tables_are_sorted_by_a_click_and_by_a_key(page, written):
    measured = written[1].evaluation.psnr
    heading = page.locator("#slices-table thead button", has_text="PSNR")
    heading.click()
    assert column(page, "slices-table", 2) == [f"{value:.2f}" for value in sorted(measured)]
    heading.focus()
    page.keyboard.press("Enter")
    assert column(page, "slices-table", 2) == [f"{value:.2f}" for value in sorted(measured, reverse=True)]
    assert page.locator("#slices-table [aria-sort=descending]").count() == 1
    page.locator("#compared thead button", has_text="NMSE").click()
    found = [float(text.split()[0]) for text in column(page, "compared", 4)]
    assert found == sorted(found)
    assert len(found) == len(written[1].compared)


def test_the_histogram_counts_every_image(page, written):
    def counts():
        titles = page.locator("#histogram title").evaluate_all("titles => titles.map(title => title.textContent)")
        return [int(title.rpartition(": ")[2]) for title in titles]

    measured = written[1].evaluation
    assert sum(counts()) == len(measured.psnr)
    page.select_option("#metric", label="SSIM")
    assert f"mean {np.mean(measured.ssim):.3g}" in page.text_content("#histogram")
    assert sum(counts()) == len(measured.ssim)


def test_the_table_can_be_saved(page, written, tmp_path):
    with page.expect_download() as download:
        page.click("#csv")
    download.value.save_as(tmp_path / "images.csv")
    with (tmp_path / "images.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    np.testing.assert_allclose([float(row["PSNR (dB)"]) for row in rows], written[1].evaluation.psnr, rtol=1e-5)
    assert [int(row["subject"]) for row in rows] == list(written[1].subjects)


def test_python_is_copied_and_loads_the_mask(page, written, monkeypatch):
    page.locator("#python").locator("..").locator(".copy").click()
    page.wait_for_function("() => document.querySelector('.copy').textContent === 'Copied'")
    code = page.evaluate("() => navigator.clipboard.readText()")
    monkeypatch.chdir(written[2].parent)
    scope = {"kspace": np.ones(tuple(written[0].mask.shape))}
    exec(code, scope)
    np.testing.assert_array_equal(scope["mask"], written[0].mask.numpy())


def test_the_theme_is_changed_and_kept(page):
    background = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.focus("#theme")
    page.keyboard.press("Enter")
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    assert page.evaluate(background) == dark


def test_the_film_plays(page, written):
    steps = written[0].trajectory.steps
    page.locator("#moment").fill("0")
    first = page.evaluate("() => document.getElementById('film').toDataURL()")
    assert page.inner_text("#film-step") == f"0 of {steps[-1]}"
    page.click("#play")
    page.wait_for_function(f"() => document.getElementById('film-step').textContent.startsWith('{steps[-1]} of')")
    assert page.evaluate("() => document.getElementById('film').toDataURL()") != first


@pytest.mark.parametrize("width", [1280, 480, 340])
def test_nothing_is_wider_than_the_window(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    # It is drawn again when the browser has told the page its new size.
    page.wait_for_function("() => document.querySelector('#curve path.loss').getBBox().width > 0", timeout=5000)


def test_everything_can_be_reached_by_tab(page):
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.id || document.activeElement.className"))
    wanted = {
        "theme",
        "mask-map",
        "probabilities-map",
        "moment",
        "play",
        "example",
        "slider",
        "metric",
        "csv",
        "copy",
    }
    assert wanted <= reached


def test_a_report_in_a_hidden_frame_is_drawn_when_it_is_shown(tab, written):
    tab.goto("about:blank")
    tab.set_content('<iframe id="frame" style="display: none; width: 900px; height: 700px"></iframe>')
    tab.evaluate("text => { document.getElementById('frame').srcdoc = text; }", written[2].read_text())
    frame = tab.frame_locator("#frame")
    frame.locator("html[data-ready=yes]").wait_for(state="attached")
    assert frame.locator("#histogram rect").count() == 0
    tab.evaluate("document.getElementById('frame').style.display = 'block'")
    frame.locator("#histogram rect").first.wait_for()
    assert frame.locator("#curve path.loss").count() == 1
