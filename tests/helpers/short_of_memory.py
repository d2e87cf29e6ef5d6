"""Learns in a process that is given hardly any more memory after its second step, and prints what came of it.

With `single`, there is not even enough for one image.
"""

import json
import resource
import sys
import warnings
from pathlib import Path

import torch

import promask
from promask.errors import InputWarning

SPARE = 26 * 2**20
"""Bytes: too few for the 8 images that are worked on at a time, and enough for 4."""


def taken():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSize"))


def squeeze(progress):
    if progress.step == 2:
        resource.setrlimit(resource.RLIMIT_AS, (taken() + SPARE, resource.RLIM_INFINITY))


def main(single):
    torch.set_num_threads(1)
    warnings.simplefilter("always", InputWarning)
    size = (16, 256, 256) if not single else (2, 1024, 1024)
    images = torch.rand(size, generator=torch.Generator().manual_seed(0))
    settings = {"steps": 5, "patience": 0, "batch_size": len(images)}
    with warnings.catch_warnings(record=True) as said:
        try:
            run = promask.learn(images, 8, on_step=squeeze, **settings)
        except MemoryError as error:
            run = None
            print(json.dumps({"error": str(error)}))
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if run is not None:
        usual = promask.learn(images, 8, **settings)
        print(
            json.dumps(
                {
                    "halved": run.history.halved,
                    "said": [str(each.message) for each in said if each.category is InputWarning],
                    "usually": usual.history.halved,
                    "difference": float((run.probabilities - usual.probabilities).abs().max()),
                }
            )
        )


main("single" in sys.argv)
