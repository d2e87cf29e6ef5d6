"""What the tests check at run time: every shape that a signature names, in a call and in what it returns."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor
from typecheck import checked

from promask.data.simulate import simulated_maps
from promask.losses.metrics import psnr
from promask.types import Sample


@checked
def product(
    first: Float[Tensor, "batch *space"], second: Float[Tensor, "*space"]
) -> Float[Tensor, "batch *space"]:
    return first * second if len(first) < 5 else second


@checked
def halves(count: float, of: "Nothing | None" = None) -> int:
    return count / 2 if count % 2 else int(count) // 2


@checked
def repeated(count: int, image: Float[Tensor, "n n"]) -> Iterator[Float[Tensor, "n n"]]:
    for _ in range(count):
        yield image


@checked
def stacked(count: int, image: Float[Tensor, "*space"]) -> Float[Tensor, "{count} *space"]:
    return image.expand(min(count, 3), *image.shape)


@checked
@dataclass
class Pair:
    first: Float[Tensor, "n m"]
    second: Float[Tensor, "n"]


def test_shapes_of_a_call_go_together():
    product(torch.ones(2, 3, 4), torch.ones(3, 4))
    product(torch.ones(2, 5), torch.ones(5))  # sizes are those of one call
    with pytest.raises(TypeCheckError):
        product(torch.ones(2, 3, 4), torch.ones(4, 3))
    with pytest.raises(TypeCheckError):
        product(torch.ones(2, 3), torch.ones(3, dtype=torch.int64))
    with pytest.raises(TypeCheckError):
        product(torch.ones(5, 3), torch.ones(3))  # returns no batch


def test_other_values_are_checked_as_well():
    assert halves(4) == 2  # a whole number for a float, and a name that is not known at run time
    with pytest.raises(TypeCheckError):
        halves("4")
    with pytest.raises(TypeCheckError):
        halves(3)  # returns no whole number


def test_generators_and_sizes_that_name_an_argument():
    assert len(list(repeated(2, torch.ones(3, 3)))) == 2
    with pytest.raises(TypeCheckError):
        repeated(2, torch.ones(3, 4))
    assert stacked(3, torch.ones(4)).shape == (3, 4)
    with pytest.raises(TypeCheckError):
        stacked(4, torch.ones(4))


def test_dataclasses_are_checked_when_they_are_made():
    Pair(torch.ones(2, 3), torch.ones(2))
    with pytest.raises(TypeCheckError):
        Pair(torch.ones(2, 3), torch.ones(3))


def test_the_package_is_checked():
    assert simulated_maps(2, (4, 4)).shape == (2, 4, 4)
    with pytest.raises(TypeCheckError):
        psnr(torch.ones(2, 1, 4, 4), torch.ones(2, 1, 4, 5))
    with pytest.raises(TypeCheckError):
        Sample(torch.ones(1, 4, 4), 3, "group", "name")
