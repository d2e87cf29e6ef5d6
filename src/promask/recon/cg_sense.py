"""CG-SENSE (Pruessmann et al. 2001): the regularised least-squares image of all coils."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from promask.operators.encoding import Encoding, conjugate_gradients, encode, mask_gradient
from promask.operators.trajectory import Trajectory
from promask.recon.base import SpectralReconstruction
from promask.types import ComplexImages, KspaceMask, Maps, Spectra


class _LeastSquares(Function):
    # The image x solves (E^H m E + r) x = E^H m y. Differentiating this equation, with v the solution of the same
    # equations for dL/dx: dL/dm = Re conj(E v) (y - E x). Nothing of the iterations is kept.
    @staticmethod
    def forward(ctx: Any, kspace: Tensor, mask: Tensor, solver: "Solver") -> Tensor:
        image = solver(solver.encoding.adjoint(kspace, mask), mask)
        ctx.save_for_backward(kspace, mask, image)
        ctx.solver = solver
        return image

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        kspace, mask, image = ctx.saved_tensors
        encoding = ctx.solver.encoding
        back = encoding(ctx.solver(gradient, mask))
        return None, mask_gradient(back, encoding(image).neg_().add_(kspace), mask.shape), None


@dataclass(frozen=True)
class Solver:
    """Images x with (E^H m E + regularisation) x = b, in so many iterations."""

    encoding: Encoding
    regularisation: float
    iterations: int
    of_imaginary: float | None = None
    """The regularisation of the imaginary part, if it is another one."""

    def __call__(self, right: ComplexImages, mask: KspaceMask) -> ComplexImages:
        """The solution for each item of a batch."""

        weights = mask.to(right.dtype)  # once, rather than in each iteration

        def normal(image: ComplexImages) -> ComplexImages:
            result = self.encoding.normal(image, weights).add_(image, alpha=self.regularisation)
            if self.of_imaginary is not None:
                result.imag.add_(image.imag, alpha=self.of_imaginary - self.regularisation)
            return result

        return conjugate_gradients(normal, right, self.iterations)


def least_squares(kspace: Spectra, mask: KspaceMask, solver: Solver) -> ComplexImages:
    """The regularised image of least squares: differentiable in the mask, not in k-space.

    Both are those of `encode`, as is the encoding.
    """
    result: Tensor = _LeastSquares.apply(kspace, mask, solver)  # type: ignore[no-untyped-call]
    return result


@dataclass(frozen=True)
class CgSense(SpectralReconstruction):
    """A few steps of conjugate gradients towards the least-squares image of all coils.

    The derivative is that of the solution itself, so memory does not grow with the iterations.

    Args:
        regularisation: Relative to the largest eigenvalue that E^H m E can have, which is 1: the scale of the
            images makes no difference.
        iterations: Steps of conjugate gradients.
    """

    regularisation: float = 0.003
    iterations: int = 10

    name = "cg-sense"
    combines_coils = True
    trajectories: ClassVar[bool] = True
    linear: ClassVar[bool] = True

    def penalty(self, images: ComplexImages) -> float:
        """What |x|^2 is weighted with.

        Args:
            images: Any, (batch, channel, *space).

        Returns:
            The regularisation.
        """
        return self.regularisation

    def from_spectra(
        self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None, trajectory: Trajectory | None = None
    ) -> ComplexImages:
        """The image x that minimises |m (E x - y)|^2 + regularisation |x|^2, nearly."""
        kspace, mask, encoding = encode(spectra, mask, maps, trajectory)
        return least_squares(kspace, mask, Solver(encoding, self.regularisation, self.iterations))
