"""How good a mask or a run is, measured on fully sampled images that it was not learned from."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import torch

from promask.data.axes import CONTRAST, FRAME
from promask.data.device import CPU, find_device
from promask.data.file_set import OnFile
from promask.data.preprocess import reconstructed_channels
from promask.data.reading import Reading, ReadingSettings
from promask.data.sources import read_part
from promask.errors import check_keywords
from promask.evaluation.conventions import ImagePairs, find_convention
from promask.evaluation.images import chunks, full_images, reconstruct
from promask.evaluation.matching import check_mask, load_for_mask, mask_values, unseen_part
from promask.evaluation.noise import NoiseMap, measure_noise
from promask.evaluation.physics import mask_physics, pattern_of
from promask.evaluation.result import Evaluation
from promask.evaluation.segmentation import NetworkLike, find_network, measurable, segmentation_scores
from promask.learning.records import DataRecord
from promask.learning.run import Run
from promask.recon import make_reconstruction, with_settings
from promask.recon.base import Reconstruction
from promask.recon.gridding import Gridding
from promask.recon.zero_filled import ZeroFilled
from promask.types import Geometry, Mask, SampleSet


def evaluate(
    mask: Any,
    data: Any,
    part: str | None = None,
    on_file: OnFile | None = None,
    convention: str = "paper",
    network: NetworkLike | None = None,
    recon: str | Reconstruction | None = None,
    iterations: int | None = None,
    regularisation: float | None = None,
    device: str | torch.device = "cpu",
    noise_replicas: int = 0,
    **reading: Unpack[ReadingSettings],
) -> Evaluation:
    """Measure the images that a mask gives against the fully sampled ones.

    A run is measured as it was learned: with its reconstruction and its network, on data that are read as its own
    were, and, if they are its own, on the part that it was not learned from.

    >>> evaluate(torch.arange(64) % 4 == 0, torch.rand(2, 64, 64)).acceleration
    4.0

    Args:
        mask: A `Run`, an `ExportedMask`, or a centred mask (*space) of 0 and 1 as an array or a tensor; lines, and
            axes of length 1, broadcast along the other axes.
        data: As for `learn`: a name, files, folders, globs, an array (N, *space), a torch `Dataset`, ...
        part: `train`, `test` or `all`. None: for the data of the run, what it was not learned from; for others,
            the held-out subjects, or everything if nothing is known of subjects.
        on_file: Called with the number of files that were read, and how many there are.
        convention: `paper`: each image by itself; `fastmri`: each volume (all slices of a subject, or a sample
            with three axes) relative to its maximum. Of series of frames, each as a whole in both.
        network: A segmentation network, or its file: the Dice and the IoU of what it finds are measured, too.
            None: that of the run, if it was learned for one.
        recon: How images are reconstructed: a name, as for `learn`, or an object of `promask.recon`. None: that
            of the run, or zero-filled; along a trajectory, gridding.
        iterations: Of an iterative reconstruction; None: its own.
        regularisation: Of an iterative reconstruction; None: its own.
        device: Where PyTorch computes, such as `cpu` or `cuda`; not that of the run.
        noise_replicas: With how many pseudo-replicas of the middle image the noise amplification is measured,
            where the reconstruction combines coils by their sensitivities; 0: not at all.
        **reading: How files are read, as for `learn`: `volumes`, `kspace`, `array`, `holds`, `plane`, `slices`,
            `size`, `select`, `skip_bad`, `coils`, `phase`, `noise`, `maps`. None of them: for a run, as its data
            were read.

    Returns:
        The metrics of every image, volume or series; `summary()` gives their means.

    Raises:
        InputError: If the mask does not fit the data, or an argument is unknown or wrong.
    """
    check_keywords(reading, (*Reading.CHECKS, *evaluate.__annotations__))
    rule, device = find_convention(convention), find_device(device)
    values = mask_values(mask)
    settings: dict[str, Any] = {}
    if isinstance(mask, Run):
        part, as_learned = unseen_part(mask, data, part, dict(reading))
        settings = as_learned
        network = find_network(mask) if network is None else network
        if recon is None:
            given = {"iterations": iterations, "regularisation": regularisation}
            given = {name: value for name, value in given.items() if value is not None}
            recon = with_settings(mask.reconstruction(), given)
            iterations = regularisation = None
    whole = load_for_mask(data, values, settings | dict(reading))
    usual = ZeroFilled.name if whole.geometry.trajectory is None else Gridding.name
    recon = make_reconstruction(usual if recon is None else recon, iterations, regularisation)
    task = None if network is None else measurable(network, device)
    values = check_mask(values, whole)
    indexed = whole.geometry.indexed
    _, chosen, part, read = read_part(whole, part=part, default="test", recon=recon, on_file=on_file)
    if task is not None:
        task.check(chosen, reconstructed_channels(chosen, recon))
    quality = rule.measure(
        ImagePairs(
            chunks=chunks(chosen),
            volumes=chosen.groups if values.ndim == 2 else list(map(str, range(len(chosen)))),
            targets=lambda chunk: full_images(chosen, chunk, recon, device),
            both=lambda chunk: reconstruct(values, chosen, chunk, recon, device),
            indexed=indexed,
            echo_times=whole.geometry.echo_times,
        )
    )
    cost = mask.distribution.pattern.limits.cost if isinstance(mask, Run) else ()
    acceleration = achieved_acceleration(values, whole.geometry, cost)
    free = mask.distribution.pattern.free if isinstance(mask, Run) else ()
    pattern = pattern_of(values, whole.geometry, free)
    return Evaluation(
        quality.psnr,
        quality.ssim,
        quality.nmse,
        acceleration=acceleration,
        data=DataRecord.of(chosen, part, read),
        convention=convention,
        of="series" if indexed else rule.of,
        segmented=None if task is None else segmentation_scores(task, chosen, values, recon, device),
        recon=recon.name,
        network=None if network is None else str(network) if isinstance(network, str | Path) else "the network",
        physics=mask_physics(values, pattern, whole.geometry.voxel),
        noise=noise_of_middle(values, chosen, recon, acceleration, noise_replicas, device),
        acceleration_within=mask.acceleration_within if isinstance(mask, Run) else None,
        temporal=quality.temporal if indexed == FRAME else None,
        contrasts=quality.contrasts if indexed == CONTRAST else None,
    )


def noise_of_middle(
    mask: Mask,
    data: SampleSet,
    recon: Reconstruction,
    acceleration: float,
    replicas: int,
    device: torch.device = CPU,
) -> NoiseMap | None:
    """The noise amplification of the middle image of a data set.

    None without replicas, or where coils are not combined by their sensitivities.
    """
    if not (replicas and recon.uses_maps):
        return None
    index = len(data) // 2
    sample = data[index]
    if sample.maps is None:
        return None
    indexed, trajectory = data.geometry.indexed, data.geometry.trajectory
    about: dict[str, Any] = {"device": device, "indexed": indexed, "trajectory": trajectory}
    found = measure_noise(sample, mask, recon, acceleration, replicas, **about)
    which = f"{'series' if indexed else 'image'} {index}"
    return replace(found, where=", ".join(filter(None, (which, found.where))))


def achieved_acceleration(mask: Mask, geometry: Geometry = Geometry(), cost: Sequence[float] = ()) -> float:
    """Locations over acquired locations; padding, outside the extent, is neither.

    Spokes and interleaves are relative to as many as a complete scan has, however many candidates there are.

    Where contrasts, the first axis of the mask, have costs, it is the scan time over the time that is spent.

    >>> lines = torch.tensor([[True, True], [True, False]])
    >>> achieved_acceleration(lines), achieved_acceleration(lines, cost=(1, 2))
    (1.3333333333333333, 1.5)
    """
    covered = mask[tuple(slice(*ends) for ends in geometry.extent)]
    if geometry.trajectory is not None:
        return covered.numel() / int(covered.sum()) * geometry.trajectory.full / geometry.trajectory.candidates
    if not cost:
        return covered.numel() / int(covered.sum())
    spent = sum(each * int(own.sum()) for each, own in zip(cost, covered, strict=True))
    return sum(cost) * covered[0].numel() / spent
