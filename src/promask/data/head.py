"""One real slice of a head: the sample in matplotlib's own data."""

from typing import IO, cast

import numpy as np
import torch

from promask.data.sets import ArraySet
from promask.errors import InputError


def head(volumes: bool = False, phase: bool = False) -> ArraySet:
    """A sagittal slice (1, 1, 256, 256), without labels."""
    if volumes or phase:
        raise InputError("The built-in head is a single slice of magnitudes: it has no volume and no phase.")
    from matplotlib.cbook import get_sample_data

    file = cast(IO[bytes], get_sample_data("s1045.ima.gz"))
    with file:
        values = np.frombuffer(file.read(), dtype=">u2").astype(np.float32).reshape(256, 256)
    return ArraySet(torch.from_numpy(values / values.max())[None, None], "head")
