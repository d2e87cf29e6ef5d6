"""What a comparison is about, and what follows for its methods.

The rows of the table: promask or a baseline, with the pattern and the loss it is asked for.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from promask.baselines import BASELINES, baseline_mask, check_available
from promask.baselines.problem import BaselineProblem
from promask.errors import InputError, InputWarning
from promask.learning.api import learn
from promask.losses.image import COMPLEX_LOSSES, LOSSES
from promask.losses.segmentation import SEGMENTATION
from promask.recon import RECONSTRUCTIONS
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZERO_FILLED, ZeroFilled
from promask.sampling.pattern import FREE_AXES, Pattern
from promask.types import Mask

RECONSTRUCTION = "reconstruction"


@dataclass(frozen=True)
class Purpose:
    """What methods may minimise, and which are compared without a choice."""

    usual_loss: str
    """Of methods that learn; it is not part of their names."""
    losses: tuple[str, ...]
    """All that can be asked for."""
    own_losses: tuple[str, ...]
    """Those of them that say what the comparison is about."""
    usual_methods: tuple[str, ...]


_NOT_LEARNED = tuple(name for name, baseline in BASELINES.items() if not baseline.learns)
PURPOSES: Mapping[str, Purpose] = {
    RECONSTRUCTION: Purpose(
        usual_loss="mse",
        losses=(*LOSSES, *COMPLEX_LOSSES),
        own_losses=(*LOSSES, *COMPLEX_LOSSES),
        usual_methods=(*BASELINES, "igs:2d", "promask:1d", "promask"),
    ),
    # Through a network, methods that look at all images for every few units take hours.
    SEGMENTATION: Purpose(
        usual_loss=SEGMENTATION,
        losses=(SEGMENTATION, *LOSSES, *COMPLEX_LOSSES),
        own_losses=(SEGMENTATION,),
        usual_methods=(
            *_NOT_LEARNED,
            "energy:1d",
            "igs:mse",
            "promask:1d:mse",
            "promask:mse",
            "promask:1d",
            "promask",
        ),
    ),
}


def find_purpose(name: str) -> Purpose:
    """A purpose of the table."""
    if name not in PURPOSES:
        raise InputError(f"Unknown task {name!r}: choose one of {', '.join(PURPOSES)}.")
    return PURPOSES[name]


PROMASK = "promask"
USUAL_IF_FILLED_IN = (
    *(name for name, baseline in BASELINES.items() if not baseline.learns),
    "energy:1d",
    "centre:1d",
    "promask:1d:zero-filled",
    "promask:zero-filled",
    "promask:1d",
    "promask",
)
"""Without a choice, for reconstructions that take long: not the methods that look at all images many times."""


@dataclass(frozen=True)
class Method:
    """A way to make a mask.

    >>> Method.parse("igs:2d", loss="ssim").label
    'igs:2d:ssim'
    >>> Method.parse("energy:2d", loss="ssim").label
    'energy'
    >>> Method.parse("promask:mse", purpose="segmentation").label
    'promask:mse'
    >>> Method.parse("promask:zero-filled:1d", recon="cg-sense").label
    'promask:1d:zero-filled'
    """

    name: str
    pattern: str
    loss: str
    purpose: str = RECONSTRUCTION
    """What the comparison is about, which says what a loss is called that is not named."""
    recon: str | None = None
    """The reconstruction that it learns for; None: that of the comparison."""

    @staticmethod
    def parse(
        text: str, loss: str | None = None, purpose: str = RECONSTRUCTION, recon: str = ZeroFilled.name
    ) -> "Method":
        """From a name and what it is to be different from usual: `promask:1d`, `igs:2d:ssim`."""
        name, *variants = text.split(":")
        if name != PROMASK and name not in BASELINES:
            known = ", ".join((*BASELINES, PROMASK))
            raise InputError(f"Unknown method {name!r}: choose from {known}.")
        kind = find_purpose(purpose)
        usual = BASELINES[name].usual if name != PROMASK else "2d"
        method = Method(name, usual, kind.usual_loss if loss is None else loss, purpose)
        for kinds in (FREE_AXES, kind.losses, RECONSTRUCTIONS):
            if sum(variant in kinds for variant in variants) > 1:
                raise InputError(f"{text} asks for two things at once: choose one of {', '.join(variants)}.")
        for variant in variants:
            if variant in FREE_AXES:
                method = replace(method, pattern=variant)
            elif variant in kind.losses and method.learns:
                method = replace(method, loss=variant)
            elif variant in RECONSTRUCTIONS and method.learns_for_reconstructions:
                method = replace(method, recon=None if variant == recon else variant)
            else:
                learned = kind.losses if method.learns else ()
                learned += tuple(RECONSTRUCTIONS) if method.learns_for_reconstructions else ()
                possible = ", ".join((*FREE_AXES, *learned))
                raise InputError(f"Unknown variant {variant!r} of {name}: choose from {possible}.")
        method._check()
        return method

    def _check(self) -> None:
        if self.free not in self._possible_free:
            possible = " or ".join(f"{self.name}:{free}d" for free in self._possible_free)
            raise InputError(f"There is no {self.name}:{self.pattern}: choose {possible}.")
        if self.loss not in LOSSES and self.name != PROMASK and BASELINES[self.name].images_only:
            possible = " or ".join(f"{self.name}:{loss}" for loss in LOSSES)
            raise InputError(
                f"{self.name} learns from a loss of images, and not from {self.loss}: choose {possible}."
            )

    @property
    def label(self) -> str:
        """The shortest text for this method in its comparison, the same however it was written."""
        usual = BASELINES[self.name].usual if self.name != PROMASK else "2d"
        parts = [self.name]
        parts += [self.pattern] if self.pattern != usual else []
        parts += [self.loss] if self.learns and self.loss != PURPOSES[self.purpose].usual_loss else []
        parts += [self.recon] if self.recon is not None else []
        return ":".join(parts)

    @property
    def is_for_its_purpose(self) -> bool:
        """Whether what it minimises is what the comparison is about."""
        return self.loss in PURPOSES[self.purpose].own_losses and self.recon is None

    @property
    def free(self) -> int:
        """How many axes of k-space are free."""
        return FREE_AXES[self.pattern]

    @property
    def learns(self) -> bool:
        """Whether it minimises a loss."""
        return self.name == PROMASK or BASELINES[self.name].learns

    @property
    def learns_for_reconstructions(self) -> bool:
        """Whether it learns for a reconstruction that it is told, and not for a network of its own."""
        return self.learns and (self.name == PROMASK or not BASELINES[self.name].images_only)

    @property
    def draws(self) -> bool:
        """Whether another seed gives another mask."""
        return self.name == PROMASK or BASELINES[self.name].draws

    @property
    def _possible_free(self) -> Sequence[int]:
        return (1, 2, 3) if self.name == PROMASK else BASELINES[self.name].free

    def mask(self, problem: BaselineProblem) -> tuple[Mask, str | None]:
        """The mask for a problem, (*space), and the name of the plain one that took its place, if one did."""
        if self.name != PROMASK:
            mask = baseline_mask(
                self.name,
                problem.data,
                problem.pattern,
                problem.acceleration,
                problem.seed,
                problem.centre,
                problem.task,
                problem.recon,
            )
            return mask, None
        run = learn(
            problem.data,
            problem.acceleration,
            task=problem.task,
            recon=problem.recon,
            pattern=self.pattern,
            axis=problem.pattern.free,
            centre=problem.centre or 0,
            seed=problem.seed,
            part="all",
        )
        return run.mask, run.record.reference

    def on(self, shape: Sequence[int], axis: Sequence[int] | None, extent: Sequence[tuple[int, int]]) -> Pattern:
        """Its pattern on a k-space; `axis` chooses the free axes of patterns that have as many."""
        chosen = axis if axis is not None and len(axis) == self.free else None
        return Pattern.named(self.pattern, shape, chosen, extent)


def parse_methods(
    texts: Iterable[str] | None,
    loss: str | None,
    dimensions: int,
    purpose: str = RECONSTRUCTION,
    recon: Reconstruction = ZERO_FILLED,
) -> list[Method]:
    """The methods asked for, each once; without a choice, the usual ones that fit k-space of so many axes."""
    kind = find_purpose(purpose)
    if loss is not None and loss not in kind.losses:
        raise InputError(f"Unknown loss {loss!r}: choose one of {', '.join(kind.losses)}.")
    usual = USUAL_IF_FILLED_IN if recon.iterative and purpose == RECONSTRUCTION else kind.usual_methods
    if loss not in (None, *LOSSES):
        usual = tuple(text for text in usual if text not in BASELINES or not BASELINES[text].images_only)
    methods = [Method.parse(text, loss, purpose, recon.name) for text in texts or usual]
    if not texts:
        methods = [method for method in methods if method.free <= dimensions and _installed(method)]
    for method in methods:
        if method.name in BASELINES:
            check_available(method.name)
    return list({method.label: method for method in methods}.values())


def _installed(method: Method) -> bool:
    if method.name == PROMASK or BASELINES[method.name].available:
        return True
    needs = BASELINES[method.name].needs
    warnings.warn(
        f"Left out: {method.name}, which needs {needs}: pip install 'promask[{method.name}]'.",
        InputWarning,
        stacklevel=2,
    )
    return False
