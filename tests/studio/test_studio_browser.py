"""The page of the studio in a browser, from files to masks."""

import io
import time
import zipfile

import numpy as np
import pytest
from playwright.sync_api import expect
from studio_helpers import calling, images_file, is_alive, kspace_file, scanner_file, until

SECONDS = 30_000
"""To wait at most, in thousandths."""


@pytest.fixture(autouse=True)
def no_jobs_left(server):
    """A test that fails leaves no job to the others."""
    yield
    for job in server.studio.jobs.unfinished():
        server.studio.jobs.cancel(job.id)


@pytest.fixture
def page(tab, server):
    """The page, when the built-in set has been looked at."""
    tab.set_default_timeout(SECONDS)
    expect.set_options(timeout=SECONDS)
    tab.goto(server.url)
    expect(tab.locator("#budget")).to_have_text("5376 of 43008 locations are acquired.")
    return tab


@pytest.fixture
def forgiving_page(browser, server):
    """The same for tests in which the studio refuses something, which browsers note as errors."""
    context = browser.new_context()
    page = context.new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_default_timeout(SECONDS)
    expect.set_options(timeout=SECONDS)
    page.goto(server.url)
    yield page
    context.close()
    assert complaints == []


def choose(page, path):
    page.set_input_files("#files", path)
    expect(page.locator("#about-data")).to_contain_text("images: 6 slices of 3 subjects, y (24), x (24)")


def downloaded(page, button):
    with page.expect_download() as waiting:
        page.click(button)
    return waiting.value.suggested_filename, waiting.value.path().read_bytes()


def test_from_files_to_a_mask(page, scans, commands, tmp_path):
    choose(page, scans)
    page.fill("#acceleration", "4")
    page.check("text=SSIM")
    page.click("#more summary")
    page.fill("#seed", "3")
    expect(page.locator("#budget")).to_have_text("144 of 576 locations are acquired.")
    expect(page.locator("#command")).to_have_text(
        "promask learn scans.npz --accel 4 --loss ssim --seed 3 --out runs/scans-x4"
    )
    page.click("#copy")
    command = page.evaluate("navigator.clipboard.readText()")
    page.click("#learn")
    expect(page.locator("#state")).to_contain_text("PSNR")
    expect(page.frame_locator("#report").locator("h1")).to_contain_text("x4 mask for scans.npz")
    commands(*command.split()[1:])
    run = tmp_path / "runs" / "scans-x4"
    assert downloaded(page, "#download-mask") == ("mask.npy", (run / "mask.npy").read_bytes())
    name, content = downloaded(page, "#download-run")
    assert name == "scans.zip"
    archive = zipfile.ZipFile(io.BytesIO(content))
    assert archive.read("scans/probabilities.npy") == (run / "probabilities.npy").read_bytes()
    page.select_option("#format", "bart")
    name, content = downloaded(page, "#download-mask")
    assert sorted(zipfile.ZipFile(io.BytesIO(content)).namelist()) == ["mask.cfl", "mask.hdr"]
    with page.context.expect_page() as other:
        page.click("#open-report")
    expect(other.value.locator("h1")).to_contain_text("x4 mask for scans.npz")
    page.reload()
    expect(page.locator("#state")).to_contain_text("PSNR")
    expect(page.locator("#about-data")).to_contain_text("6 slices")


def test_what_can_be_read_in_several_ways_is_asked_for_and_learned(page, tmp_path):
    page.set_input_files("#files", kspace_file(tmp_path / "raw.npy"))
    expect(page.locator("#about-data")).to_have_text("This can be read in several ways: choose one.")
    expect(page.locator("#learn")).to_be_disabled()
    expect(page.locator("#picture")).to_be_hidden()
    expect(page.locator("#facts")).to_contain_text("array complex64 [6, 24, 20]")
    page.click("text=slice ky kx: 6 slices, in k-space")
    expect(page.locator("#about-data")).to_contain_text("6 slices, phase encoding ky (24), readout kx (20)")
    expect(page.locator("#choices")).to_be_empty()
    expect(page.locator("#facts dt")).to_contain_text(["arrays", "kspace", "roles of axes", "sampling"])
    assert page.evaluate("picture.naturalWidth") > 900
    expect(page.locator("#axis")).to_have_text("ky: lines run across")
    page.fill("#acceleration", "4")
    expect(page.locator("#budget")).to_have_text("6 of 24 lines are acquired.")
    expect(page.locator("#command")).to_have_text(
        "promask learn raw.npy --axes 'slice ky kx' --accel 4 --out runs/raw-x4"
    )
    page.click("#learn")
    expect(page.frame_locator("#report").locator("h1")).to_contain_text("x4 mask for raw.npy")
    page.click("#tab-mask")
    expect(page.locator("#down")).to_have_text("ky")
    expect(page.locator("#across")).to_have_text("kx")
    assert page.evaluate("[canvas.width, canvas.height]") == [20, 24]
    column = "[...document.getElementById('canvas').getContext('2d').getImageData(0, 12, 1, 1).data]"
    assert page.evaluate(column) == [253, 231, 36, 255], "a line runs across"
    page.reload()
    expect(page.locator("#about-data")).to_contain_text("phase encoding ky (24)")
    expect(page.locator("#axes")).to_have_value("slice ky kx")
    page.select_option("#data", "head")
    expect(page.locator("#about-data")).to_contain_text("images: 1 slice")
    expect(page.locator("#reading")).to_be_hidden()
    expect(page.locator("#command")).to_have_text("promask learn head --accel 8 --out runs/head-x8")


def test_axes_by_hand_and_frames(forgiving_page, tmp_path):
    page = forgiving_page
    page.set_input_files("#files", kspace_file(tmp_path / "cine.npy"))
    expect(page.locator("#choices button")).to_have_count(4)
    page.click("#reading summary")
    page.fill("#axes", "frame kq kx")
    page.keyboard.press("Enter")
    expect(page.locator("#data-error")).to_contain_text("unknown name 'kq'")
    expect(page.locator("#choices")).to_be_empty()
    page.fill("#axes", "frame ky kx")
    page.keyboard.press("Enter")
    expect(page.locator("#about-data")).to_contain_text("1 slice, 6 frames")
    expect(page.locator("#data-error")).to_be_empty()
    expect(page.locator("#command")).to_contain_text("--axes 'frame ky kx' --accel 8 --recon kt-sense")
    expect(page.locator("#learn")).to_be_enabled()
    page.check("#each_frame")
    expect(page.locator("#command")).to_contain_text("--axes 'frame ky kx' --each-frame")
    expect(page.locator("#learn")).to_be_enabled()
    page.fill("#axes", "slice ky kx")
    page.keyboard.press("Enter")
    expect(page.locator("#each-frame-row")).to_be_hidden()
    expect(page.locator("#command")).not_to_contain_text("--each-frame")
    page.fill("#axes", "")
    page.keyboard.press("Enter")
    expect(page.locator("#choices button")).to_have_count(4)
    expect(page.locator("#going")).to_be_hidden()


def test_lines_where_the_readout_is_known(forgiving_page, tmp_path):
    page = forgiving_page
    page.set_input_files("#files", scanner_file(tmp_path / "scan.h5"))
    expect(page.locator("#about-data")).to_contain_text("2 slices, 3 coils, readout kx (24")
    expect(page.locator("input[value='1d']")).to_be_checked()
    expect(page.locator("#budget")).to_have_text("2 of 20 lines are acquired.")
    expect(page.locator("#axis")).to_have_text("ky: lines run down")
    expect(page.locator("#command")).to_have_text("promask learn scan.h5 --accel 8 --out runs/scan-x8")
    page.check("input[value='2d']")
    expect(page.locator("#settings-error")).to_contain_text("would undersample kx, the readout")
    expect(page.locator("#learn")).to_be_disabled()
    page.click("#reading summary")
    page.select_option("#readout", "none")
    expect(page.locator("#budget")).to_have_text("60 of 480 locations are acquired.")
    expect(page.locator("#command")).to_contain_text("--readout none")
    page.check("input[value='1d']")
    expect(page.locator("#axis option")).to_have_text(["ky: lines run down", "kx: lines run across"])
    page.select_option("#axis", "kx")
    expect(page.locator("#command")).to_contain_text("--pattern 1d --axis kx")
    expect(page.locator("#budget")).to_have_text("3 of 24 lines are acquired.")


def test_names_in_files_stay_text(page, tmp_path):
    trap = "<img src=x onerror=\"document.title='trapped'\">"
    images = np.random.default_rng(0).random((3, 24, 24))
    np.savez(tmp_path / "arrays.npz", **{trap: images, "other": images})
    page.set_input_files("#files", tmp_path / "arrays.npz")
    expect(page.locator("#choices button")).to_have_text([f"{trap} [3, 24, 24]", "other [3, 24, 24]"])
    expect(page.locator("#facts dd").first).to_contain_text(trap)
    page.click("#choices button >> nth=0")
    expect(page.locator("#about-data")).to_contain_text("images: 3 slices")
    expect(page.locator("#array")).to_have_value(trap)
    expect(page.locator("#command")).to_contain_text("<img src=x")
    assert page.locator("img").count() == 1
    assert page.title() == "promask studio"


def test_a_mask_of_ones_own(forgiving_page, scans, tmp_path):
    """It is told of beside the choice, stands in the report, and can be taken back."""
    page = forgiving_page
    choose(page, scans)
    page.fill("#acceleration", "4")
    page.click("#more summary")
    page.fill("#steps", "5")
    np.save(tmp_path / "mask.npy", np.arange(24) % 3 == 0)
    (tmp_path / "bad.npy").write_bytes(b"nonsense")
    page.set_input_files("#own-mask", tmp_path / "bad.npy")
    expect(page.locator("#mask-error")).to_contain_text("bad.npy is")
    expect(page.locator("#learn")).to_be_enabled()
    page.set_input_files("#own-mask", tmp_path / "mask.npy")
    expect(page.locator("#about-mask")).to_have_text("24, \u00d73")
    expect(page.locator("#mask-error")).to_be_empty()
    expect(page.locator("#command")).to_contain_text("--beside yours=mask.npy")
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.click("#learn")
    expect(page.frame_locator("#report").locator("#compared")).to_contain_text("yours")
    page.click("#remove-mask")
    expect(page.locator("#command")).not_to_contain_text("--beside")
    assert page.evaluate("wish().mask") is None


def test_the_mask_forms_before_the_eyes_and_can_be_cancelled(page, server, scans):
    choose(page, scans)
    page.fill("#acceleration", "4")
    page.click("#more summary")
    page.select_option("#recon", "cs")
    page.fill("#steps", "100000")
    page.click("#learn")
    expect(page.locator("#number-step")).to_contain_text("of 100000")
    expect(page.locator("#number-budget")).to_have_text("144")
    pictures = set()
    end = time.monotonic() + 20
    while len(pictures) < 3 and time.monotonic() < end:
        pictures.add(page.evaluate("document.getElementById('canvas').toDataURL()"))
        time.sleep(0.05)
    assert len(pictures) >= 3
    assert page.evaluate("[canvas.width, canvas.height]") == [24, 24]
    middle = "[...document.getElementById('canvas').getContext('2d').getImageData(12, 12, 1, 1).data]"
    assert page.evaluate(middle) == [253, 231, 36, 255], "acquired: the last colour of viridis"
    box = page.locator("#canvas").bounding_box()
    page.hover("#canvas", position={"x": box["width"] * 12.5 / 24, "y": box["height"] * 12.5 / 24})
    expect(page.locator("#hover")).to_have_text("kx 0, ky 0: probability 1.00")
    assert len(page.locator("#curve polyline").get_attribute("points").split()) > 3
    job = server.studio.jobs.get(page.evaluate("job.id"))
    pid = job.worker.process.pid
    page.click("#cancel")
    expect(page.locator("#state")).to_have_text("Cancelled.")
    until(lambda: not is_alive(pid))
    expect(page.locator("#learn")).to_be_enabled()
    expect(page.locator("#cancel")).to_be_hidden()


def test_a_bad_file_is_told_of_beside_the_choice(forgiving_page, tmp_path, scans):
    page = forgiving_page
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"PK nonsense")
    page.set_input_files("#files", bad)
    expect(page.locator("#data-error")).to_contain_text("bad.npz is damaged")
    expect(page.locator("#learn")).to_be_disabled()
    (tmp_path / "run.sh").write_text("echo")
    page.set_input_files("#files", tmp_path / "run.sh")
    expect(page.locator("#data-error")).to_contain_text("run.sh is not a file that promask reads")
    (tmp_path / "large.npy").write_bytes(bytes(1_000_001))
    page.set_input_files("#files", tmp_path / "large.npy")
    expect(page.locator("#data-error")).to_contain_text("more than the 1 MB of this studio")
    choose(page, scans)
    expect(page.locator("#data-error")).to_be_empty()
    expect(page.locator("#learn")).to_be_enabled()
    page.fill("#acceleration", "0.5")
    expect(page.locator("#settings-error")).to_contain_text("at least 1")
    expect(page.locator("#learn")).to_be_disabled()


def test_files_that_are_dropped_together(page, scans, tmp_path):
    others = images_file(tmp_path / "others.npz", count=3)
    files = [[path.name, list(path.read_bytes())] for path in (scans, others)]
    page.evaluate(
        """files => {
            const dataTransfer = new DataTransfer();
            for (const [name, bytes] of files) dataTransfer.items.add(new File([new Uint8Array(bytes)], name));
            const told = { dataTransfer, bubbles: true, cancelable: true };
            document.body.dispatchEvent(new DragEvent("dragover", told));
            if (document.getElementById("dropping").hidden) throw new Error("nothing shows where to drop");
            document.body.dispatchEvent(new DragEvent("drop", told));
        }""",
        files,
    )
    expect(page.locator("#about-data")).to_contain_text("9 slices of 3 subjects")
    expect(page.locator("#command")).to_contain_text("promask learn scans ")
    expect(page.locator("#dropping")).to_be_hidden()


def test_what_goes_wrong_while_learning_is_told(forgiving_page, server, scans):
    page = forgiving_page
    choose(page, scans)
    page.click("#more summary")
    page.select_option("#recon", "cs")
    page.fill("#steps", "100000")
    page.click("#learn")
    expect(page.locator("#number-step")).to_contain_text("of 100000")
    server.studio.jobs.get(page.evaluate("job.id")).worker.process.kill()
    expect(page.locator("#job-error")).to_contain_text("ended without a word")
    expect(page.locator("#learn")).to_be_enabled()


def test_with_the_keyboard_alone(page, server, scans):
    choose(page, scans)

    def go_to(id):
        for _ in range(40):
            if page.evaluate("document.activeElement.id") == id:
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"{id} cannot be reached")

    page.focus("#theme")
    before = page.evaluate("theme()")
    page.keyboard.press("Enter")
    assert page.evaluate("theme()") != before
    go_to("acceleration-slider")
    page.keyboard.press("End")
    expect(page.locator("#budget")).to_have_text("18 of 576 locations are acquired.")
    go_to("acceleration")
    page.keyboard.type("6")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#budget")).to_have_text("4 of 24 lines are acquired.")
    expect(page.locator("#axis-row")).to_be_visible()
    go_to("learn")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("#state")).to_contain_text("\u00d76: PSNR")
    page.focus("#tab-report")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#canvas")).to_be_visible()
    assert page.evaluate("[canvas.width, canvas.height]") == [24, 24]


def test_two_tabs_do_not_disturb_each_other(page, browser, server, scans, tmp_path):
    other_scans = images_file(tmp_path / "other.npz", seed=1)
    context = browser.new_context()
    other = context.new_page()
    other.goto(server.url)
    for tab, path in ((page, scans), (other, other_scans)):
        choose(tab, path)
        tab.fill("#acceleration", "4")
        expect(tab.locator("#command")).to_contain_text(f"{path.name} --accel 4")
    for tab in (page, other):
        tab.click("#learn")
    for tab, path in ((page, scans), (other, other_scans)):
        expect(tab.frame_locator("#report").locator("h1")).to_contain_text(path.name)
    with calling(server) as client:
        masks = [client.get(f"/api/jobs/{tab.evaluate('job.id')}/mask").content for tab in (page, other)]
    assert masks[0] != masks[1]
    context.close()


def test_on_a_narrow_screen_nothing_is_cut_off(page):
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    controls, view = (page.locator(name).bounding_box() for name in ("#settings", "#view"))
    assert view["y"] >= controls["y"] + controls["height"]
    assert controls["width"] == view["width"] == 400


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_is_that_of_the_system(page, scheme):
    page.emulate_media(color_scheme=scheme)
    red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (min(red, green, blue) > 200) == (scheme == "light")
