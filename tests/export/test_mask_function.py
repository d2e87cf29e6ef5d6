"""Mask functions as fastMRI, DIRECT and MONAI call them."""

import pickle

import numpy as np
import pytest
import torch
from masks import PATTERNS, run_on

from helpers import assert_global_random_state_is_untouched, seeded
from promask import InputError
from promask.export import write_mask
from promask.export.files import load_mask
from promask.export.mask_function import as_mask_func


def apply_as_fastmri_does(kspace, function, seed=None, padding=None):
    mask, width = function((1,) * (kspace.ndim - 3) + tuple(kspace.shape[-3:]), None, seed)
    if padding is not None:
        mask[:, :, : padding[0]] = 0
        mask[:, :, padding[1] :] = 0
    return kspace * mask + 0.0, mask, width


def test_fastmri_gets_lines():
    run = run_on(PATTERNS["columns"], acceleration=2, centre=4)
    function = as_mask_func(run)
    kspace = torch.randn(3, 16, 12, 2, generator=seeded())
    masked, mask, width = apply_as_fastmri_does(kspace, function, seed=tuple(map(ord, "file.h5")))
    assert mask.dtype == torch.float32
    assert mask.shape == (1, 1, 12, 1)
    assert mask.flatten().tolist() == run.mask[0].tolist()
    assert torch.equal(masked, kspace * run.mask[:, :, None])
    assert width >= 4
    start = (12 - width + 1) // 2  # where fastMRI takes the centre from
    assert mask[0, 0, start : start + width].all()
    assert function((7, 99, 12, 2))[0].shape == (1, 1, 12, 1)


def test_fastmri_gets_locations():
    run = run_on(PATTERNS["odd"], acceleration=2, centre=3)
    mask, width = as_mask_func(run)((1, 1, 9, 15, 2), offset=3, seed=5)
    assert mask.shape == (1, 1, 9, 15, 1)
    assert torch.equal(mask[0, 0, :, :, 0], run.mask.float())
    assert width >= 3
    assert as_mask_func(run_on(PATTERNS["volume"]))((2, 6, 7, 5, 2))[0].shape == (1, 6, 7, 5, 1)


@pytest.mark.parametrize(
    ("lines", "width"),
    [
        ("000010000", 1),
        ("000111000", 3),
        ("011110000", 1),
        ("000011110", 2),
        ("00111000", 2),
        ("00011100", 3),
        ("00111100", 4),
        ("11110111", 0),
        ("11111111", 8),
    ],
)
def test_the_width_of_the_centre(lines, width):
    mask = torch.tensor([line == "1" for line in lines])
    assert as_mask_func(mask)((8, len(mask), 2))[1] == width


def test_callers_may_change_their_mask():
    run = run_on(PATTERNS["columns"])
    function = as_mask_func(run)
    apply_as_fastmri_does(torch.ones(1, 16, 12, 2), function, padding=(6, 7))
    function((16, 12, 2), return_acs=False)[:] = False
    assert torch.equal(function((1, 16, 12, 2))[0].flatten(), run.mask[0].float())


def test_direct_gets_booleans():
    for name in ("columns", "rows", "locations"):
        run = run_on(PATTERNS[name], acceleration=1.5, centre=3)
        function = as_mask_func(run)
        mask = function(shape=(16, 12, 2), seed=(1, 2), return_acs=False)
        assert mask.dtype == torch.bool
        assert mask.shape == (1, 16, 12, 1)  # one axis more, for the coils
        assert torch.equal(mask[0, :, :, 0], run.mask)
        centre = function(shape=(16, 12, 2), seed=(1, 2), return_acs=True)
        assert centre.shape == mask.shape
        assert (mask | ~centre).all()
        width = function((16, 12, 2))[1]
        assert int(centre.sum()) == {"columns": 16 * width, "rows": 12 * width, "locations": width**2}[name]
        assert centre[0, 8, 6, 0]
    assert as_mask_func(run_on(PATTERNS["columns"]))((4, 20, 12, 2), return_acs=False).shape == (1, 1, 20, 12, 1)


@pytest.mark.parametrize("name", ["columns", "locations"])
def test_monai_gets_masked_kspace_and_the_image(name):
    run = run_on(PATTERNS[name])
    function = as_mask_func(run)
    kspace = torch.randn(2, 3, 16, 12, generator=seeded(), dtype=torch.complex128)
    kspace[..., 0] = complex(-0.0, -0.0)
    masked, image = function(kspace)
    bits = run.mask.numpy()
    np.testing.assert_array_equal(masked.numpy(), kspace.numpy() * bits)
    assert not np.signbit(masked.numpy()[..., 0].real).any()
    assert not np.signbit(masked.numpy()[:, :, ~bits].imag).any()
    shifted = np.fft.ifftshift(kspace.numpy() * bits, (-2, -1))
    coils = np.fft.fftshift(np.fft.ifft2(shifted, norm="ortho"), (-2, -1))
    np.testing.assert_allclose(image.numpy(), np.sqrt((np.abs(coils) ** 2).sum(1)))

    pairs = torch.view_as_real(kspace)
    masked_pairs, same_image = function(pairs)
    assert torch.equal(masked_pairs, torch.view_as_real(masked))
    assert torch.equal(same_image, image)
    from_array = function(pairs.numpy())
    assert torch.equal(from_array[0], masked_pairs)
    single = function(kspace[0, 0])[1]
    np.testing.assert_allclose(single.numpy(), np.abs(coils[0, 0]))


def test_random_masks():
    run = run_on(PATTERNS["locations"])
    function = as_mask_func(run, random=True)
    shape = (16, 12, 2)
    drawn = function(shape, seed=3)[0][..., 0].bool()
    assert torch.equal(drawn, run.sample(1, seed=3, exact=True)[0])
    name = tuple(map(ord, "file1000001.h5"))
    assert torch.equal(function(shape, seed=name)[0], function(shape, seed=list(name))[0])
    assert not torch.equal(function(shape, seed=name)[0], function(shape, seed=(*name, 1))[0])
    assert not torch.equal(function(shape)[0], function(shape)[0])
    masks = torch.stack([function(shape, seed=(seed, 1))[0][..., 0] for seed in range(300)])
    assert (masks.sum((1, 2)) == run.distribution.budget).all()
    expected = run.sample(300, seed=0, exact=True).float().mean(0)
    assert (masks.mean(0) - expected).abs().max() < 0.17  # 4 standard errors of the difference of two means
    assert_global_random_state_is_untouched(lambda: (function(shape), function(shape, seed=name)))
    fixed = as_mask_func(run)
    assert torch.equal(fixed(shape, seed=3)[0][..., 0], run.mask.float())


def test_a_mask_function_travels_to_another_process():
    function = pickle.loads(pickle.dumps(as_mask_func(run_on(PATTERNS["columns"]), random=True)))
    assert function((16, 12, 2), seed=1)[0].shape == (1, 12, 1)


def test_sources_of_a_mask_function(tmp_path):
    run = run_on(PATTERNS["columns"])
    folder = run.save(tmp_path / "run")
    file = write_mask(load_mask(run)[0], tmp_path / "m.mat")
    for source in (run, folder, str(folder), file, load_mask(run)[0], run.mask, run.mask.numpy()):
        assert torch.equal(as_mask_func(source)((16, 12, 2))[0].flatten(), run.mask[0].float())
    as_mask_func(folder, random=True)((16, 12, 2))
    for source in (file, run.mask):
        with pytest.raises(InputError, match="give a run"):
            as_mask_func(source, random=True)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("columns", (16, 13, 2)), ("columns", (12, 2)), ("locations", (15, 12, 2)), ("rows", (1, 15, 12, 2))],
)
def test_shapes_that_do_not_fit(name, shape):
    function = as_mask_func(run_on(PATTERNS[name]))
    message = rf"\[16, 12\] and does not fit \[{', '.join(map(str, shape))}\].*resized"
    for call in (lambda: function(shape), lambda: function(shape, return_acs=True)):
        with pytest.raises(InputError, match=message):
            call()
    with pytest.raises(InputError, match="resized"):
        function(torch.ones(shape))
    with pytest.raises(InputError, match="real and imaginary parts"):
        function(torch.ones(16, 12, 3))


def test_as_monai_has_it():
    """MONAI's own transform and reconstruction, with the same mask."""
    from monai.apps.reconstruction.complex_utils import complex_abs
    from monai.apps.reconstruction.mri_utils import root_sum_of_squares
    from monai.apps.reconstruction.transforms.array import EquispacedKspaceMask
    from monai.data.fft_utils import ifftn_centered

    function = as_mask_func(run_on(PATTERNS["columns"]))
    kspace = torch.randn(2, 3, 16, 12, 2, generator=seeded())
    masked, image = function(kspace)
    mask, _ = function(kspace.shape)
    filled = complex_abs(ifftn_centered(kspace * mask, spatial_dims=2, is_complex=True))
    torch.testing.assert_close(image, root_sum_of_squares(filled, spatial_dim=1))
    theirs = EquispacedKspaceMask(center_fractions=[0.2], accelerations=[4])(kspace)
    for ours, their in zip((masked, image), theirs, strict=True):
        assert (type(ours), ours.shape, ours.dtype) == (type(their), their.shape, their.dtype)
