"""The report as a file: what it holds, against the arrays and measures that it is made of."""

import base64
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from reports import content_of, measured_run, smooth_images

from promask import InputError, Run, evaluate, learn
from promask.baselines import baseline_mask
from promask.data.reading import Reading
from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.learning.records import Measured, Quality, ReferenceComparison
from promask.recon import CgSense
from promask.report import wording
from promask.report.measurements import measure_run
from promask.report.page import crop_centre, pack, report_page, shrink, write_report

LARGEST = 5e6


@pytest.fixture(scope="module")
def example():
    return measured_run(members=2)


def unpacked(record, kind):
    return np.frombuffer(zlib.decompress(base64.b64decode(record["data"])), kind).reshape(record["shape"])


def decoded(address):
    import io

    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))))


def test_reference_masks_of_parallel_imaging():
    """Beside an iterative reconstruction, tuned for it on the images that the mask was learned from."""
    images = smooth_images().images.abs().squeeze(1).numpy()
    data, recon = load(images, Reading(coils=4)), CgSense(iterations=4)
    run = learn(data, acceleration=4, steps=2, patience=0, recon=recon)
    found = measure_run(run, data)
    assert set(found.compared) >= {"promask", "regular", "caipi", "variable-density", "poisson-tuned", "energy"}
    pattern = run.distribution.pattern
    assert torch.equal(found.masks["caipi"], baseline_mask("caipi", data, pattern, 4, recon=recon))
    assert not {"caipi", "poisson-tuned"} & set(measured_run()[2].compared)


def test_pictures_of_kspace_hold_the_arrays_of_the_run(example):
    run, _, measurements = example
    content = content_of(report_page(run, measurements))
    np.testing.assert_array_equal(unpacked(content["mask"], "<u1"), run.mask.numpy())
    probabilities = unpacked(content["probabilities"], "<u2") / 65535
    np.testing.assert_allclose(probabilities, run.probabilities, atol=1e-5)
    deviation = unpacked(content["spread"], "<u2") / 65535 * content["spread"]["largest"]
    np.testing.assert_allclose(deviation, run.variance.sqrt(), atol=1e-5)
    assert deviation.max() > 0
    moments = unpacked(content["trajectory"], "u1") / 255
    assert content["trajectory"]["steps"] == [0, *range(1, 7)]
    np.testing.assert_allclose(moments, run.trajectory.probabilities, atol=1 / 255)


def test_padding_is_told_from_what_is_not_acquired():
    from promask.types import Geometry

    data = replace(smooth_images(), geometry=Geometry(extent=((0, 24), (4, 20))))
    run = learn(data, 4, pattern="1d", steps=2)
    states = unpacked(content_of(report_page(run))["mask"], "<u1")
    assert set(np.unique(states[:, :4])) == {2}
    assert set(np.unique(states[:, 4:])) == {0, 1}


def test_other_masks_are_measured_as_promask_evaluate_does(example):
    run, data, measurements = example
    train, _ = choose_part(data, "train", default="train")
    energy = baseline_mask("energy", train, run.distribution.pattern, 4)
    wanted = evaluate(energy, data, "test").summary()
    table = content_of(report_page(run, measurements))["compared"]
    titles = ["mask", *(column["title"] for column in table["columns"])]
    rows = {row["cells"][0]["value"]: dict(zip(titles, row["cells"], strict=True)) for row in table["rows"]}
    assert rows["energy"]["PSNR (dB)"]["value"] == pytest.approx(wanted["psnr"], rel=1e-5)
    assert rows["energy"]["SSIM"]["text"] == f"{wanted['ssim']:.4f}"
    learned = evaluate(run.mask, data, "test").summary()
    assert rows["promask"]["NMSE"]["value"] == pytest.approx(learned["nmse"], rel=1e-5)
    lowest = min(row["NMSE"]["value"] for row in rows.values())
    assert [row["NMSE"]["best"] for row in rows.values()].count(True) >= 1
    assert all(row["NMSE"]["best"] == (row["NMSE"]["value"] == lowest) for row in rows.values())


def test_random_masks_come_with_their_spread(example):
    run, data, measurements = example
    pattern = run.distribution.pattern
    quality = [evaluate(baseline_mask("gaussian", data, pattern, 4, seed), data, "test").psnr for seed in range(5)]
    means = np.mean(quality, axis=1)
    assert measurements.draws == 5
    assert measurements.compared["gaussian"]["psnr"] == pytest.approx(means.mean())
    assert measurements.compared["gaussian"]["psnr_spread"] == pytest.approx(means.std(ddof=1))
    assert "psnr_spread" not in measurements.compared["energy"]


def test_masks_of_ones_own_stand_beside_the_others(example):
    """In the table, in the examples and among the pictures of masks, as evaluate measures them."""
    run, data, _ = example
    own = torch.arange(20) % 3 == 0
    measurements = measure_run(run, data, beside={"mine": own, "again": run})
    wanted = evaluate(own, data, "test").summary()
    assert list(measurements.compared)[-2:] == ["mine", "again"]
    assert measurements.compared["mine"]["psnr"] == pytest.approx(wanted["psnr"])
    assert measurements.compared["mine"]["acceleration"] == 20 / 7
    assert measurements.compared["again"]["nmse"] == measurements.compared["promask"]["nmse"]
    content = content_of(report_page(measurements.add_to(run), measurements))
    np.testing.assert_array_equal(decoded(content["masks"]["mine"]), own.expand(24, 20).numpy())
    assert [row["cells"][0]["text"] for row in content["compared"]["rows"]][-2:] == ["mine", "again"]
    assert all("mine" in each["masks"] for each in content["examples"])
    for name, mask, sentence in (
        ("mine", torch.ones(21), r"^mine: The mask has shape \[21\], but the k-space of the data has shape"),
        ("energy", own, "^'energy' is taken"),
        ("mine", "mask.npy", "^mine: A mask is a run, an exported mask or an array of 0 and 1, but not a str"),
    ):
        with pytest.raises(InputError, match=sentence):
            measure_run(run, data, beside={name: mask})


def test_every_held_out_image_is_in_the_table(example):
    run, data, measurements = example
    slices = content_of(report_page(run, measurements))["slices"]
    held_out, _ = choose_part(data, "test", default="test")
    measured = evaluate(run.mask, data, "test")
    names = list(dict.fromkeys(data.groups))
    assert [names[row[1] - 1] for row in slices["rows"]] == list(held_out.groups)
    np.testing.assert_allclose([row[2] for row in slices["rows"]], measured.psnr, rtol=1e-5)
    np.testing.assert_allclose([row[3] for row in slices["rows"]], measured.ssim, rtol=1e-5)


def test_images_share_a_window_and_errors_their_own(example):
    run, _, measurements = example
    example, result = content_of(report_page(run, measurements))["examples"][0], measurements.examples[0]
    learned = result.images["promask"]
    full, image = learned.target[0, 0].numpy(), learned.image[0, 0].numpy()
    white = np.quantile(full, 0.995)
    np.testing.assert_allclose(decoded(example["full"]), np.clip(full / white, 0, 1) * 255, atol=0.51)
    np.testing.assert_allclose(
        decoded(example["masks"]["promask"]["image"]), np.clip(image / white, 0, 1) * 255, atol=0.51
    )
    wanted = np.clip(5 * np.abs(image - full) / white, 0, 1) * 255
    np.testing.assert_allclose(decoded(example["masks"]["promask"]["error"]), wanted, atol=0.51)


def test_a_page_needs_nothing_else(example, tmp_path):
    run, _, measurements = example
    page = write_report(run, tmp_path, measurements).read_text()
    for address in re.findall(r"""(?:src|href)\s*=\s*["']([^"']+)""", page):
        assert address.startswith(("data:", "#")), address
    assert "@import" not in page
    assert not re.findall(r"url\((?!data:)", page)
    assert (tmp_path / "figures" / "overview.png").is_file()


@pytest.mark.parametrize(("size", "settings"), [((320, 320), {}), ((1100, 300), {"pattern": "1d"})])
def test_noise_of_any_size_stays_below_the_limit(size, settings):
    noise = torch.rand(2, *size, generator=torch.Generator().manual_seed(0))
    run = learn(
        noise, 4, steps=3, init="uniform", annealing="cubic", learner="gumbel-adam", batch_size=1, **settings
    )
    from promask.data.sources import load

    page = report_page(run, measure_run(run, load(noise)))
    assert 1e5 < len(page.encode()) < LARGEST


def test_a_large_plane_is_cut_around_its_centre():
    values = torch.arange(9 * 8).reshape(9, 8)
    part = crop_centre(values, 4)
    assert part.shape == (4, 4)
    assert part[2, 2] == values[4, 4]
    assert crop_centre(values, 5)[2, 2] == values[4, 4]


def test_shrinking_keeps_the_mean():
    image = torch.rand(64, 48, generator=torch.Generator().manual_seed(0))
    small = shrink(image, 32 * 24)
    assert small.shape == (32, 24)
    torch.testing.assert_close(small, image.reshape(32, 2, 24, 2).mean((1, 3)))


def test_packing_is_little_endian():
    assert unpacked(pack(np.array([[1, 256]], dtype=">u2")), "<u2").tolist() == [[1, 256]]


def test_words_of_users_are_no_markup(example):
    run, _, measurements = example
    evil = "</script><script>alert('x')</script>"
    data = replace(run.record.data, source=evil)
    record = replace(run.record, data=data, command=f"promask learn {evil}")
    compared = {evil: measurements.compared["promask"]}
    page = report_page(replace(run, record=record), replace(measurements, compared=compared))
    assert evil not in page
    assert content_of(page)["compared"]["rows"][0]["cells"][0]["text"] == evil


def test_a_run_without_images_has_a_report_and_says_so(tmp_path):
    run = learn(smooth_images(), 4, steps=2)
    page = report_page(replace(run, trajectory=None))
    assert "made without the images" in page
    assert content_of(page)["examples"] == []
    assert 'id="slider"' not in page
    assert 'id="film"' not in page


def test_what_took_the_place_of_the_learned_mask_is_said(example):
    run, _, measurements = example
    assert "not better" not in report_page(run, measurements)
    kept = "Kept the central block: the learned mask was not better on the training images."
    assert kept in report_page(run.with_record(reference="centre"), measurements)


@pytest.mark.parametrize(
    ("learned", "measured", "wanted"),
    [
        ("train", None, "held out"),
        ("test", None, "held out"),
        ("all", None, "the same that it was learned from"),
        ("all", "test", "the same that it was learned from"),
        ("train", "train", "the same that it was learned from"),
        ("train", "all", "some of which it was learned from"),
    ],
)
def test_what_was_seen_is_told(learned, measured, wanted):
    data = smooth_images()
    run = learn(data, 4, part=learned, steps=2)
    page = report_page((found := measure_run(run, data, part=measured)).add_to(run), found)
    words = ("held out", "the same that it was learned from", "some of which it was learned from")
    assert {word for word in words if f", {word}<" in page} == {wanted}
    assert ("Nothing was held out" in page) == (wanted == words[1])


def quality(**metrics):
    return Quality(acceleration=4, images=2, part="test", **metrics)


def advised(run, others, stopped=(None,), reference=None, seen="held out", **config):
    """The advice on a run whose mask has these metrics and whose reference masks have others."""
    masks = {"promask": quality(psnr=30.0, ssim=0.9, dice=0.8), **{name: quality(**each) for name, each in others}}
    run = replace(run, config=replace(run.config, **config), history=replace(run.history, stopped=stopped))
    compared, measured = ReferenceComparison(2, 5, masks), Measured("array", seen)
    run = run.with_record(reference=reference, compared=compared, measured=measured)
    return run, list(wording.advice(run))


POISSON, RADIAL = ("poisson", {"psnr": 30.306, "ssim": 0.85}), ("radial", {"psnr": 30.1, "ssim": 0.95})


@pytest.mark.parametrize(
    ("others", "settings", "wanted"),
    [
        (
            [POISSON, RADIAL],
            {},
            "0.31 dB behind poisson in PSNR on these images: more steps (--steps), or another",
        ),
        (
            [POISSON],
            {"stopped": (5,)},
            "0.31 dB behind poisson in PSNR on these images: several members (--members),",
        ),
        (
            [POISSON, RADIAL],
            {"loss": "ssim"},
            "0.0500 behind radial in SSIM on these images: more steps (--steps),",
        ),
        ([("energy", {"psnr": 20.0, "dice": 0.8126})], {"loss": "segmentation"}, "0.013 behind energy in Dice on"),
        ([POISSON], {"loss": "segmentation"}, None),
        ([("centre", {"psnr": 30.004})], {}, None),
        ([("centre", {"psnr": 29.0})], {}, None),
        ([POISSON], {"reference": "energy"}, None),
        ([POISSON], {"seen": "other"}, None),
        ([], {}, None),
    ],
    ids=["best", "stopped", "ssim", "dice", "no dice", "alike", "ahead", "kept", "other data", "alone"],
)
def test_a_mask_that_is_behind_is_said_to_be(example, others, settings, wanted):
    run, sentences = advised(example[0], others, **settings)
    assert [each.startswith(f"The learned mask is {wanted}") for each in sentences] == [True] * bool(wanted)
    assert (wording.behind(run) is None) == (wanted is None)
    assert all(each in wording.notes(run, None) for each in sentences)


@pytest.mark.parametrize(
    ("patience", "stopped", "wanted"),
    [(2, (None,), 18), (2, (4, None), 18), (2, (4,), None), (0, (None,), None)],
    ids=["unsettled", "one of two", "settled", "never stopped"],
)
def test_too_few_steps_are_told(example, patience, stopped, wanted):
    run, sentences = advised(example[0], [], stopped, patience=patience)
    assert wording.more_steps(run) == wanted
    told = "Learning used all 6 steps before the mask settled: --steps 18 may improve it."
    assert sentences == ([told] if wanted else [])
    assert (told in wording.notes(run, None)) == bool(wanted)


def test_other_data_are_named():
    data, other = smooth_images(), replace(smooth_images(seed=1), name="knees.npz", subjects=None)
    run = learn(data, 4, steps=2)
    found = measure_run(run, other)
    page = report_page(found.add_to(run), found)
    assert found.evaluation.images == len(other), "all of them: nothing is known of subjects"
    assert "measured on knees.npz, and was learned from the array" in page
    assert "held out" not in page


def test_images_that_a_mask_gives_back_exactly():
    rows, columns = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
    boards = torch.stack([2.0 + (-1.0) ** (rows + columns), 2.0 + (-1.0) ** rows])
    run = learn(boards, 4, steps=2)
    from promask.data.sources import load

    found = measure_run(run, load(boards))
    assert found.compared["promask"]["psnr"] is None, "infinite"
    table = content_of(report_page(found.add_to(run), found))["compared"]
    assert {cell["text"] for row in table["rows"] for cell in row["cells"]} >= {"-"}


def test_long_learning_is_thinned_out():
    run = learn(smooth_images(), 4, steps=2)
    long = replace(run.history, loss=[1 + step for step in range(100_000)], budget=[120.0] * 100_000)
    history = content_of(report_page(replace(run, history=long)))["history"]
    assert len(history["loss"]) <= 2000
    assert (history["steps"][0], history["steps"][-1]) == (1, 100_000)
    assert history["loss"][-1] == 100_000


def test_of_very_many_images_some_are_in_the_table(example):
    run, _, measurements = example
    many = replace(measurements.evaluation, psnr=[30.0] * 7000, ssim=[0.5] * 7000, nmse=[0.1] * 7000)
    page = report_page(run, replace(measurements, evaluation=many, subjects=[1] * 7000))
    assert len(content_of(page)["slices"]["rows"]) == 5000
    assert "5000 of 7000 images (test), evenly spread" in page


def test_lines_and_volumes_have_reports():
    lines, _, measurements = measured_run(pattern="1d")
    assert set(measurements.compared) == {"promask", "equispaced", "gaussian", "centre", "energy"}
    assert "lines" in report_page(lines, measurements)
    volumes = torch.rand(2, 12, 10, 8, generator=torch.Generator().manual_seed(0))
    run = learn(volumes, 4, pattern="3d", steps=2)
    from promask.data.reading import Reading
    from promask.data.sources import load

    page = report_page(run, measure_run(run, load(volumes, Reading(volumes=True))))
    assert content_of(page)["mask"]["shape"] == [10, 8]
    assert "plane through the middle" in page
    whole = learn(volumes, 4, pattern="2d", axis=[0, 1], volumes=True, steps=2)  # the last axis is read out
    shown = content_of(report_page(whole))["mask"]
    assert shown["shape"] == [12, 10]
    assert np.array_equal(unpacked(shown, np.uint8), whole.mask[:, :, 0].numpy())


def test_reconstructions_that_fill_in_are_measured_as_such():
    run, data, measurements = measured_run(recon="cs", steps=3)
    assert measurements.draws == 1
    wanted = evaluate(run.mask, data, "test", recon=run.reconstruction()).summary()["psnr"]
    assert measurements.compared["promask"]["psnr"] == pytest.approx(wanted)
    assert "0 or 1" in report_page(run, measurements)


def test_a_trajectory_is_kept_with_the_run(example, tmp_path):
    run, _, _ = example
    again = Run.load(run.save(tmp_path / "run"))
    assert again.trajectory.steps == run.trajectory.steps
    assert torch.equal(again.trajectory.probabilities, run.trajectory.probabilities)


def test_a_trajectory_begins_at_the_start_and_ends_at_the_end():
    data = smooth_images()
    start = torch.rand(24, 20, generator=torch.Generator().manual_seed(1))
    run = learn(data, 4, steps=50, patience=0, init=start, learner="gumbel-adam", annealing="cubic")
    steps, moments = run.trajectory.steps, run.trajectory.probabilities
    assert (steps[0], steps[-1]) == (0, 50)
    assert 8 <= len(steps) <= 16
    torch.testing.assert_close(moments[0], start, atol=1e-3, rtol=0)
    torch.testing.assert_close(moments[-1], run.probabilities, atol=1e-3, rtol=0)
    budgets = [run.history.budget[step - 1] for step in steps[1:]]
    for moment, budget in zip(moments[1:], budgets, strict=True):
        assert float(moment.sum()) <= budget * 1.001


def test_the_report_says_what_physicists_ask(undrawn):
    from promask.data.reading import Reading
    from promask.data.sources import load

    data = load(torch.rand(4, 24, 20, generator=torch.Generator().manual_seed(0)), Reading(coils=4))
    run = learn(data, 4, recon="cg-sense", steps=2)
    measurements = measure_run(run, data)
    page = report_page(run, measurements)
    section = page[page.index('id="physics"') :]
    section = section[: section.index("</section>")]
    assert section.count("<img") == 3
    of_learned = measurements.physics["promask"]
    assert set(measurements.noise) == set(measurements.physics) == set(measurements.compared)
    amplified = measurements.noise["promask"].summary()["amplification"]["mean"]
    for text in (f"{of_learned.point_spread.side_lobe:.1%}", f"{amplified:.3g}", "16 pseudo-replicas"):
        assert text in section
    recorded = measurements.add_to(run).record.evaluation.to_json()
    assert recorded["density"]["samples"] == int(run.mask.sum())
    assert recorded["noise"]["amplification"]["mean"] == pytest.approx(amplified)
    alone = report_page(run)
    assert alone.count('<th scope="row">promask</th>') == 1
