"""The built-in brain as volumes of a 3D scan with eight coils and a smooth phase, to compare ky-kz masks on.

`python -m benchmarks.brain_blocks brain_blocks.npz` writes blocks of two neighbouring positions along the
readout, which runs from head to foot. It is one head, the MNI152 template: blocks that are held out are other
parts of it.
"""

import sys
from pathlib import Path

import numpy as np
import torch

from promask.data.builtin.brain import brain
from promask.data.simulate import simulated_maps

COILS = 8
BLOCK = 2


def smooth_phase(shape: tuple[int, ...]) -> torch.Tensor:
    """A phase of a few radians over the head, as of an inhomogeneous field."""
    x, y, z = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in shape), indexing="ij")
    return x * y + 0.8 * y**2 - 0.6 * z * x + 0.7 * z + 0.5 * torch.sin(2 * y + 1.5 * z)


def write_blocks(path: Path) -> None:
    """Images of all coils, (block, coil, x, y, z), their sensitivities, and the name of each block."""
    head = brain(volumes=True).images[0, 0]
    maps = simulated_maps(COILS, tuple(head.shape))
    images = maps * head * torch.exp(1j * smooth_phase(tuple(head.shape)))
    starts = range(0, head.shape[0], BLOCK)
    blocks, of_blocks = (
        torch.stack([each[:, start : start + BLOCK] for start in starts]).numpy() for each in (images, maps)
    )
    names = np.array([f"block-{number:02d}" for number, _ in enumerate(starts)])
    np.savez(path, image=blocks.astype(np.complex64), maps=of_blocks, subject=names)


if __name__ == "__main__":
    write_blocks(Path(sys.argv[1]))
