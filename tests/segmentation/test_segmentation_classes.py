"""Names and numbers of classes, and how labels become regions."""

import pytest
import torch

from promask.errors import InputError
from promask.segmentation.classes import EXACT_BITS, Classes
from promask.types import Sample

PAIR = Classes(("wall", "blood"), (1, 2))


def sample(label, *unlabelled):
    label = None if label is None else torch.tensor(label)
    return Sample(torch.ones(1, 2, 2), label, "anna", "scan 7", unlabelled)


@pytest.mark.parametrize(
    ("texts", "names", "values"),
    [
        (["wall=1", "blood=2"], ("wall", "blood"), (1, 2)),
        (["wall", "blood"], ("wall", "blood"), (1, 2)),
        (["blood=7"], ("blood",), (7,)),
        (["a=3", "b"], ("a", "b"), (3, 2)),
        (["right-ventricle=01"], ("right-ventricle",), (1,)),
    ],
)
def test_parsing(texts, names, values):
    classes = Classes.parse(texts)
    assert (classes.names, classes.values, classes.overlapping) == (names, values, False)
    assert Classes.parse(texts, overlapping=True).overlapping


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([], "no classes"),
        ([""], "such as lesion=1, but is ''"),
        (["=1"], "but is '=1'"),
        (["wall="], "but is 'wall='"),
        (["wall=-1"], "but is 'wall=-1'"),
        (["wall=1.5"], "but is 'wall=1.5'"),
        (["wall=1=2"], "but is 'wall=1=2'"),
        (["wall=0"], "at least 1, but one is 0"),
        (["wall=1", "wall=2"], "must differ, but are wall, wall"),
        (["wall=2", "blood"], "must differ, but are 2, 2"),
    ],
)
def test_refusals(texts, words):
    with pytest.raises(InputError, match=words) as caught:
        Classes.parse(texts)
    assert "\n" not in str(caught.value)


def test_outputs():
    assert (len(PAIR), PAIR.outputs) == (2, 3)
    assert Classes(("a", "b"), (1, 2), overlapping=True).outputs == 2


def test_regions():
    labels = torch.tensor([[[0, 1], [2, 5]]])
    assert PAIR.regions(labels).tolist() == [[[[False, True], [False, False]], [[False, False], [True, False]]]]
    nested = Classes(("whole", "core"), (1, 2), overlapping=True)
    assert nested.regions(labels).tolist() == [[[[False, True], [True, True]], [[False, False], [True, True]]]]


def test_regions_of_numbers_in_any_order():
    labels = torch.tensor([[9, 4]])
    assert Classes(("a", "b"), (9, 4)).regions(labels).tolist() == [[[True, False], [False, True]]]


@pytest.mark.parametrize(
    ("unlabelled", "hidden"),
    [
        ((), [False, False]),
        (("wall",), [True, False]),
        (("blood",), [False, True]),
        (("blood", "wall"), [True, True]),
        (("liver",), [False, False]),
    ],
)
def test_what_was_not_annotated_is_hidden_in_the_background(unlabelled, hidden):
    encoded = PAIR.label(sample([[0, 2], [1, 0]], *unlabelled))
    assert PAIR.regions(encoded[None]).tolist() == PAIR.regions(torch.tensor([[[0, 2], [1, 0]]])).tolist()
    found = PAIR.hidden(encoded[None])[0]
    assert found[:, 0, 0].tolist() == found[:, 1, 1].tolist() == hidden
    assert not found[:, 0, 1].any()
    assert not found[:, 1, 0].any()


def test_a_sample_without_a_label():
    with pytest.raises(InputError, match="scan 7 has no label"):
        PAIR.label(sample(None))


def test_too_many_classes_to_hide():
    many = Classes.parse([f"c{place}" for place in range(EXACT_BITS + 1)])
    last = many.names[EXACT_BITS - 1]
    encoded = many.label(sample([[0, 0], [0, 1]], last, "c0"))
    assert encoded.to(torch.float32)[0, 0] == encoded[0, 0], "single precision keeps it"
    assert many.hidden(encoded[None])[0, :, 0, 0].nonzero().flatten().tolist() == [0, EXACT_BITS - 1]
    with pytest.raises(InputError, match="first 24 classes"):
        many.label(sample([[0, 0], [0, 1]], many.names[EXACT_BITS]))


def test_predictions():
    background, wall, blood = [3.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, -1.0, 5.0]
    found = PAIR.predicted(torch.tensor([[background, wall, blood]]))
    assert found.tolist() == [[[False, True, False], [False, False, True]]]
    nested = Classes(("whole", "core"), (1, 2), overlapping=True)
    assert nested.predicted(torch.tensor([[[0.1, -2.0], [3.0, 0.0]]])).tolist() == [[[True, False], [True, False]]]
