"""Whom the network learns from, who says when to stop, and who is left for the test: no one is in two parts."""

from dataclasses import dataclass

from promask.data import OnFile, choose_part, prepared
from promask.errors import InputError
from promask.types import SampleSet


@dataclass(frozen=True)
class Parts:
    """The parts of a data set; masks are learned from `train` and `validation` together."""

    train: SampleSet
    validation: SampleSet
    test: SampleSet

    def sizes(self) -> dict[str, dict[str, int]]:
        """How many subjects and samples there are in each of them."""
        return {
            name: {"subjects": len(set(part.groups)), "samples": len(part)} for name, part in vars(self).items()
        }


def split(data: SampleSet, on_file: OnFile | None = None) -> Parts:
    """The parts of a data set, made ready: a fifth for the test, and of the others a fifth for validation.

    Subjects are not cut through; of a single one, blocks of slices are taken.
    """
    learning, of_data = choose_part(data, "train", "train")
    test, _ = choose_part(data, "test", "test")
    train, of_learning = choose_part(learning, "train", "train")
    validation, _ = choose_part(learning, "test", "test")
    if "all" in (of_data, of_learning) or not (len(train) and len(validation) and len(test)):
        raise InputError(
            f"{data.name} is too small to be split into training, validation and test: it must hold 3 samples or "
            f"more, of several subjects if possible."
        )
    return Parts(*(prepared(part, on_file) for part in (train, validation, test)))
