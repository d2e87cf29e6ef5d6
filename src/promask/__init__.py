"""promask learns where to sample k-space.

>>> import promask
>>> run = promask.learn("head", acceleration=8, steps=5)
>>> run.mask.shape
torch.Size([256, 256])
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from promask import data as data
    from promask import export as export
    from promask import figures as figures
    from promask import nn as nn
    from promask import recon as recon
    from promask import report as report
    from promask import tasks as tasks
    from promask.config import Config as Config
    from promask.distribution import MaskDistribution as MaskDistribution
    from promask.errors import InputError as InputError
    from promask.evaluation import evaluate as evaluate
    from promask.experiments.compare import compare as compare
    from promask.learning.learn import learn as learn
    from promask.learning.run import Run as Run
    from promask.patterns import Pattern as Pattern

# Imported when first used, so that `promask --help` does not wait for PyTorch.
_HOME = {
    "Config": "promask.config",
    "InputError": "promask.errors",
    "MaskDistribution": "promask.distribution",
    "Pattern": "promask.patterns",
    "Run": "promask.learning.run",
    "compare": "promask.experiments.compare",
    "evaluate": "promask.evaluation",
    "learn": "promask.learning.learn",
    "__version__": "promask.version",
}

_MODULES = ("data", "export", "figures", "nn", "recon", "report", "tasks")

__all__ = [
    "Config",
    "InputError",
    "MaskDistribution",
    "Pattern",
    "Run",
    "compare",
    "data",
    "evaluate",
    "export",
    "figures",
    "learn",
    "nn",
    "recon",
    "report",
    "tasks",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"promask.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'promask' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
