"""Contours of what a network finds, against the regions that they go around."""

import numpy as np
import pytest
import torch
from comparisons import heart_network, hearts

from helpers import seeded
from promask.data.sample_sets import ArraySet
from promask.evaluation.images import reconstruct
from promask.evaluation.segmentation import segment
from promask.figures.comparison import contour_grid
from promask.figures.contours import box_around, contour_figure, middle_image, segment_slice
from promask.losses.segmentation import Segmentation
from promask.segmentation.classes import Classes
from promask.types import Geometry


@pytest.fixture(scope="module")
def task():
    return Segmentation(heart_network(steps=25))


@pytest.fixture(scope="module")
def data():
    images, labels = (torch.from_numpy(each) for each in hearts())
    return ArraySet(images[:, None], "hearts", labels)


def mask_of(share, shape=(24, 20)):
    return torch.rand(shape, generator=seeded()) < share


def test_what_is_outlined(task, data):
    mask = mask_of(0.4)
    found = segment_slice(task, data, 2, mask)
    image, target = reconstruct(mask, data, range(2, 3))
    assert torch.equal(found.image, image[0, 0])
    assert torch.equal(segment_slice(task, data, 2, None).image, target[0, 0])
    assert torch.equal(found.truth, torch.stack([data.labels[2] == 1, data.labels[2] == 2]))
    with torch.no_grad():
        predicted = task.network(image).argmax(1)[0]
    assert torch.equal(found.found, torch.stack([predicted == 1, predicted == 2]))
    assert torch.equal(found.dice, segment(task, data, mask).dice[2])
    assert found.caption == f"Dice {found.dice.mean():.2f} ({found.dice[0]:.2f}, {found.dice[1]:.2f})"


def test_only_what_is_judged_is_outlined(task, data):
    part = ArraySet(data.images, "hearts", data.labels, geometry=Geometry(region=(20, 16)))
    found = segment_slice(task, part, 2, None)
    assert found.image.shape == found.truth.shape[1:] == found.found.shape[1:] == (20, 16)
    assert torch.equal(found.truth[1], data.labels[2, 2:22, 2:18] == 2)


def test_classes_that_are_not_there_have_no_number(task, data):
    found = segment_slice(task, data, 9, None)
    assert found.caption == f"Dice {found.dice[0]:.2f} ({found.dice[0]:.2f}, -)"
    empty = ArraySet(data.images[:1], "hearts", 0 * data.labels[:1])
    assert segment_slice(task, empty, 0, None).caption == "nothing to find"
    contour_figure(task, empty, 0, {"x2": mask_of(0.5)})


def test_the_image_that_is_shown_holds_all_classes(task):
    labels = torch.zeros(9, 24, 20, dtype=torch.int64)
    for index, (wall, cavity) in enumerate(
        [(9, 9), (9, 0), (9, 9), (9, 9), (9, 1), (9, 0), (1, 1), (9, 8), (0, 9)]
    ):
        labels[index, :wall, :10] = 1
        labels[index, :cavity, 10:] = 2
    data = ArraySet(torch.rand(9, 1, 24, 20), "test", labels)
    # The middle, 4, and 6 hold little of them; 5 has no cavity.
    assert middle_image(task, data) == 3
    assert middle_image(task, ArraySet(data.images[:2], "test", labels[[1, 5]])) == 1
    assert middle_image(task, ArraySet(data.images[:3], "test", 0 * labels[:3])) == 1


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        ((40, 60), (50, 70), ((35, 65), (45, 75))),  # 20 pixels and 5 on either side
        ((48, 52), (48, 52), ((38, 62), (38, 62))),  # at least 24
        ((0, 20), (80, 100), ((0, 30), (70, 100))),  # not beyond the edge
        ((0, 100), (0, 10), ((0, 100), (0, 100))),
        ((0, 0), (0, 0), ((0, 100), (0, 100))),  # nothing there
    ],
)
def test_the_part_around_the_labels(rows, columns, expected):
    truth = torch.zeros(2, 100, 100, dtype=torch.bool)
    truth[1, slice(*rows), slice(*columns)] = True
    assert tuple((part.start, part.stop) for part in box_around(truth)) == expected


def paths_in(axes):
    return [collection.get_paths()[0].vertices for collection in axes.collections if len(collection.get_paths())]


def test_grid(task, data):
    masks = {name: {x: mask_of(1 / x) for x in (2.0, 4.0)} for name in ("energy", "promask:1d")}
    del masks["energy"][4.0]
    figure = contour_grid(masks, task, data, 2)
    assert len(figure.axes) == 2 * 3 - 1
    texts = [text.get_text() for text in figure.texts]
    assert texts == ["fully sampled", "x2", "x4", "energy", "promask:1d", "as labelled", "wall", "cavity"]
    shown = segment_slice(task, data, 2, masks["promask:1d"][4.0])
    axes = figure.axes[-1]
    part = box_around(shown.truth)
    assert np.array_equal(np.asarray(axes.images[0].get_array()), shown.image[part].numpy())
    assert axes.get_xlabel() == shown.caption
    assert len({axes.images[0].get_clim() for axes in figure.axes}) == 1
    # Of each class, what was found and the label, which is white: contours run half a pixel outside the regions.
    colours = [collection.get_edgecolor()[0].tolist() for collection in figure.axes[0].collections]
    assert colours[1::2] == [[1, 1, 1, 1]] * 2
    assert colours[0] != colours[2]
    full = segment_slice(task, data, 2, None)
    for region, path in zip(full.truth, paths_in(figure.axes[0])[1::2], strict=True):
        rows, columns = (place.numpy() for place in region[part].nonzero(as_tuple=True))
        assert path[:, 1].max() == rows.max() + 0.5
        assert path[:, 1].min() == rows.min() - 0.5
        assert path[:, 0].max() == columns.max() + 0.5


def test_pictures_do_not_overlap(data):
    names = tuple(f"a class with a long name, {number}" for number in range(5))
    task = Segmentation(torch.nn.Conv2d(1, 6, 1), classes=Classes(names, (1, 2, 3, 4, 5)))
    figure = contour_grid({"energy": {4.0: mask_of(0.25)}}, task, data, 2)
    figure.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in figure.axes] + [text.get_window_extent() for text in figure.texts]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    assert all(box.y0 >= 0 and box.y1 <= figure.bbox.height for box in boxes)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_one_run(task, data):
    figure = contour_figure(task, data, 2, {"x2": mask_of(0.5)})
    assert [text.get_text() for text in figure.texts][:3] == ["", "fully sampled", "x2"]
    assert [axes.get_xlabel()[:5] for axes in figure.axes] == ["Dice "] * 2


def test_volumes_show_the_plane_with_most_labels():
    labels = torch.zeros(1, 5, 24, 20, dtype=torch.int64)
    labels[0, 3, 4:12, 4:12], labels[0, 1, 4:6, 4:6] = 2, 1
    data = ArraySet(torch.rand(1, 1, 5, 24, 20, generator=seeded()), "test", labels)
    task = Segmentation(heart_network(dimensions=3))
    found = segment_slice(task, data, 0, mask_of(0.5, (5, 24, 20)))
    assert torch.equal(found.truth[1], labels[0, 3] == 2)
    assert found.image.shape == (24, 20)
