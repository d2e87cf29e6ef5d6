"""Images as they might have been: mirrored, turned, moved, stretched, with other contrast and noise."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from promask.types import Image, Label

ROTATION = 0.5
"""In radians."""
STRETCH = 0.2
SHEAR = 0.1
SHIFT = 0.08
"""As a share of the shortest axis."""
GAMMA = (0.6, 1.6)
NOISE = 0.05
"""As a share of the largest value."""

Augment = Callable[[Image, Label], tuple[Image, Label]]


def augmentation(space: tuple[int, ...], seed: int) -> Augment:
    """A random change of images and labels of this size; labels stay whole numbers."""
    from monai.transforms.compose import Compose  # takes seconds
    from monai.transforms.intensity.dictionary import RandAdjustContrastd, RandGaussianNoised
    from monai.transforms.spatial.dictionary import RandAffined, RandFlipd

    both = ("image", "label")
    axes = len(space)
    transform = Compose(
        [
            *(RandFlipd(both, prob=0.5, spatial_axis=axis) for axis in range(axes)),
            RandAffined(
                both,
                prob=0.9,
                rotate_range=(ROTATION,) * (1 if axes == 2 else 3),
                scale_range=(STRETCH,) * axes,
                shear_range=(SHEAR,) * axes,
                translate_range=(SHIFT * min(space),) * axes,
                mode=("bilinear", "nearest"),
                padding_mode=("border", "border"),
            ),
            RandAdjustContrastd("image", prob=0.5, gamma=GAMMA),
            RandGaussianNoised("image", prob=0.3, std=NOISE),
        ]
    )
    transform.set_random_state(state=np.random.RandomState(seed))

    def augment(image: Image, label: Label) -> tuple[Image, Label]:
        largest = image.max().clamp_min(torch.finfo(image.dtype).tiny)
        changed: Any = transform({"image": image / largest, "label": label.unsqueeze(0).to(torch.float32)})
        image, label = (changed[name].as_tensor() for name in both)
        return image, label[0].round().to(torch.int64)

    return augment
