"""Runs whose reports are looked at."""

import json
import re

import torch

from promask import learn
from promask.data.arrays import from_images
from promask.report.measurements import measure_run


def smooth_images(count=6, size=(24, 20), seed=0):
    """Real images with most of their energy in the centre of k-space, of three subjects."""
    noise = torch.randn(count, *size, generator=torch.Generator().manual_seed(seed))
    rows, columns = (torch.fft.fftfreq(n) for n in size)
    weight = 1 / (0.03 + rows[:, None] ** 2 + columns**2)
    images = torch.fft.ifft2(torch.fft.fft2(noise) * weight).real
    return from_images(images - images.amin(), subjects=[f"patient {index // 2}" for index in range(count)])


def measured_run(**settings):
    """A run, its data and what was measured of it."""
    data = smooth_images()
    run = learn(data, **{"acceleration": 4, "steps": 6, "patience": 0, **settings})
    measurements = measure_run(run, data)
    return measurements.add_to(run), data, measurements


def content_of(page):
    """What the script of a page is given."""
    return json.loads(re.search(r'id="content">(.*?)</script>', page, re.DOTALL)[1])
