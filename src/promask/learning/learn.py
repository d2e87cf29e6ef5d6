"""From data to a run: the whole of learning in one call."""

import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from promask.config import Config
from promask.data import choose_part, load
from promask.distribution import MaskDistribution
from promask.errors import InputError
from promask.files import read_array
from promask.fourier import centred, fft_order
from promask.learning.batches import Samples
from promask.learning.ensemble import Ensemble, optimise_members
from promask.learning.loop import OnStep
from promask.learning.run import Run
from promask.patterns import Pattern
from promask.tasks import Reconstruction
from promask.types import Loss, Units
from promask.version import __version__


def learn(
    data: Any,
    acceleration: float,
    *,
    preset: str = "default",
    loss: str | Loss = "mse",
    init: Any = "uniform",
    on_step: OnStep | None = None,
    **settings: Any,
) -> Run:
    """Learn where to sample k-space.

    >>> images = torch.rand(2, 16, 16, generator=torch.Generator().manual_seed(0))
    >>> run = learn(images, acceleration=4, steps=20)
    >>> run.mask.shape, int(run.mask.sum())
    (torch.Size([16, 16]), 64)

    `data` is an array or tensor of images, a torch Dataset, a file or a built-in name; `loss` is `mse`, `l1`,
    `ssim` or a callable on (magnitude images, targets); `init` is `uniform`, or an array or .npy file of
    probabilities, or a run folder. Further settings are those of `Config`: steps, batch_size, samples, members,
    pattern, axis, volumes, part, seed, ...
    """
    task = Reconstruction(loss)
    init = "uniform" if init is None else init
    given = init if isinstance(init, str | Path) else "given"
    config = Config.preset(preset, acceleration=acceleration, loss=task.name, init=str(given), **settings)
    device = _device(config.device)
    whole = load(data, config.volumes)
    chosen, part = choose_part(whole, config.part, usual="train")
    pattern = Pattern.named(config.pattern, whole.shape[1:], config.axis)
    budget = pattern.budget(config.acceleration)
    start = None if config.init == "uniform" else _start(init, pattern).to(device)

    began = time.perf_counter()
    samples = Samples(chosen, device)
    ensemble = optimise_members(samples, pattern, task, config, start, on_step)
    about = {
        "data": {
            "source": whole.name,
            "part": part,
            "images": len(chosen),
            "groups": len(set(chosen.groups)),
            "shape": whole.shape,
        },
        "preset": preset,
        "seconds": round(time.perf_counter() - began, 3),
        "versions": {
            "promask": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    dimensions = len(pattern.free)
    return Run(
        distribution=MaskDistribution(_result(ensemble.probabilities, dimensions), pattern, budget),
        config=config,
        history=_history(ensemble),
        variance=_result(ensemble.variance, dimensions),
        about=about,
    )


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"The device {name!r} cannot be used here: {str(error).splitlines()[0]}.") from error
    return device


def _start(init: Any, pattern: Pattern) -> Units:
    """Given probabilities, one per unit or one per location, centred -> one per unit, in FFT order."""
    if isinstance(init, str | Path):
        path = Path(init, "probabilities.npy") if Path(init).is_dir() else Path(init)
        if not path.is_file():
            raise InputError(f"{init} is not 'uniform', a file of probabilities or a run folder.")
        init = read_array(path, "buif", "probabilities")
    probabilities = torch.as_tensor(init).to(torch.float32)
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise InputError("The probabilities to start from must be numbers from 0 to 1.")
    if probabilities.shape != pattern.unit_shape:
        if probabilities.shape != pattern.shape:
            raise InputError(
                f"The probabilities to start from have shape {list(probabilities.shape)}, but the units have "
                f"shape {list(pattern.unit_shape)}."
            )
        probabilities = pattern.restrict(probabilities)
    return fft_order(probabilities, len(pattern.free))


def _result(values: Units, dimensions: int) -> Units:
    return centred(values, dimensions).to("cpu", torch.float32).contiguous()


def _history(ensemble: Ensemble) -> dict[str, Any]:
    first = ensemble.histories[0]
    losses = [history.loss for history in ensemble.histories]
    return {
        "loss": [sum(values) / len(values) for values in zip(*losses, strict=True)],
        "budget": first.budget,
        "temperature": first.temperature,
        "member_loss": losses,
    }
