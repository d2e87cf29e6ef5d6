"""promask learns where to sample k-space.

>>> import promask
>>> run = promask.learn("head", acceleration=8, steps=5)
>>> run.mask.shape
torch.Size([256, 256])
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from promask import baselines as baselines
    from promask import data as data
    from promask import export as export
    from promask import figures as figures
    from promask import learners as learners
    from promask import losses as losses
    from promask import nn as nn
    from promask import recon as recon
    from promask import report as report
    from promask.errors import InputError as InputError
    from promask.evaluation.evaluate import evaluate as evaluate
    from promask.learning.api import learn as learn
    from promask.learning.config import Config as Config
    from promask.learning.run import Run as Run
    from promask.report.comparison import compare as compare
    from promask.sampling.distribution import MaskDistribution as MaskDistribution
    from promask.sampling.pattern import Pattern as Pattern

# Imported when first used, so that `promask --help` does not wait for PyTorch.
_HOME = {
    "Config": "promask.learning.config",
    "InputError": "promask.errors",
    "MaskDistribution": "promask.sampling.distribution",
    "Pattern": "promask.sampling.pattern",
    "Run": "promask.learning.run",
    "compare": "promask.report.comparison",
    "evaluate": "promask.evaluation.evaluate",
    "learn": "promask.learning.api",
}

_ROOMS = ("baselines", "data", "export", "figures", "learners", "losses", "nn", "recon", "report")

__all__ = [
    "Config",
    "InputError",
    "MaskDistribution",
    "Pattern",
    "Run",
    "baselines",
    "compare",
    "data",
    "evaluate",
    "export",
    "figures",
    "learn",
    "learners",
    "losses",
    "nn",
    "recon",
    "report",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("promask")
    if name in _ROOMS:
        return importlib.import_module(f"promask.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'promask' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
