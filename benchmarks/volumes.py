"""Volumes that are generated on the fly, in any number: nothing is stored."""

from typing import Any

import numpy as np
import numpy.typing as npt


class Volumes:
    """A torch Dataset of the slices of volumes, each of which is an ellipsoid with smaller ones in it.

    The same index always gives the same slice.
    """

    def __init__(self, volumes: int, slices: int, size: int) -> None:
        self.volumes, self.slices, self.size = volumes, slices, size
        self.groups = [f"subject {index // slices}" for index in range(volumes * slices)]
        axis = np.linspace(-1, 1, size, dtype=np.float32)
        self.rows, self.columns = axis[:, None], axis[None, :]

    def __len__(self) -> int:
        return self.volumes * self.slices

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        volume, number = divmod(index, self.slices)
        random = np.random.default_rng((volume, 1))
        height = 1.6 * (number + 0.5) / self.slices - 0.8
        image = np.zeros((self.size, self.size), np.float32)
        for inner in range(8):
            reach = random.uniform(0.8, 0.95, 3) if inner == 0 else random.uniform(0.1, 0.5, 3)
            centre = np.zeros(3) if inner == 0 else random.uniform(-0.4, 0.4, 3)
            bright = 1.0 if inner == 0 else random.uniform(-0.5, 0.5)
            left = 1 - ((height - centre[0]) / reach[0]) ** 2
            if left > 0:
                rows = np.square((self.rows - np.float32(centre[1])) / np.float32(reach[1]))
                columns = np.square((self.columns - np.float32(centre[2])) / np.float32(reach[2]))
                image += np.float32(bright) * (rows + columns < np.float32(left))
        return image
