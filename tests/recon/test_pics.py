"""BART as an independent judge: scans that promask writes, and the ranking of masks by `bart pics`."""

import numpy as np
import pytest
import torch
from benchmarks.pics import rankings
from file_writers import needs_bart

from helpers import coil_maps, seeded
from promask import InputError, learn
from promask.baselines import baseline_mask
from promask.data.reading import Reading
from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.export.bart import write_scan
from promask.recon.cg_sense import CgSense
from promask.sampling.pattern import Pattern
from promask.types import Sample


def test_a_scan_comes_back(tmp_path):
    image = torch.randn(3, 12, 10, generator=seeded(), dtype=torch.complex64)
    maps = coil_maps(3, (12, 10))[0].to(torch.complex64)
    kspace, of_maps = write_scan(Sample(image, None, "a", "a", maps=maps), tmp_path)
    found = load(kspace, Reading(holds="kspace", maps=str(of_maps)))[0]
    assert torch.allclose(found.image, image, atol=1e-6)
    assert torch.allclose(found.maps, maps, atol=1e-6)
    # BART's own order: the first axis runs fastest, coils are the fourth.
    raw = np.fromfile(kspace, np.complex64).reshape(12, 10, 1, 3, order="F")
    wanted = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image.numpy(), (1, 2)), norm="ortho"), (1, 2))
    assert np.allclose(raw[:, :, 0].transpose(2, 0, 1), wanted, atol=1e-5)


def test_a_scan_without_maps_is_kspace_alone(tmp_path):
    sample = Sample(torch.rand(1, 6, 5, 4), None, "a", "a")
    kspace, of_maps = write_scan(sample, tmp_path)
    assert of_maps is None
    assert kspace.with_suffix(".hdr").read_text().split()[2:6] == ["6", "5", "4", "1"]
    with pytest.raises(InputError, match="is not a folder: make it first"):
        write_scan(sample, tmp_path / "nowhere")


@needs_bart
def test_bart_ranks_masks_as_promask_does():
    data = load("cardiac", Reading(coils=6, size=(96, 96)))
    (learning, _), (held_out, _) = (choose_part(data, part, default=part) for part in ("train", "test"))
    pattern = Pattern.named("2d", (96, 96))
    masks = {name: baseline_mask(name, learning, pattern, 6) for name in ("random", "energy", "gaussian")}
    masks["promask"] = learn(learning, 6, recon="cg-sense", steps=25, part="all").mask
    rows = rankings(masks, held_out, [3], CgSense())
    by_promask, by_bart = (sorted(rows, key=lambda row, by=by: row[by]) for by in ("promask", "bart"))
    assert by_promask == by_bart
    assert by_bart[-1]["mask"] == "promask"
