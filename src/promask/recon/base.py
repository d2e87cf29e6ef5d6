"""What everything else asks of a reconstruction."""

from typing import Protocol, runtime_checkable

from promask.types import AnyImages, CoilImages, KspaceMask, Maps, Spectra


@runtime_checkable
class Reconstruction(Protocol):
    """(k-space, mask) -> image, differentiable in the mask. Everything is in FFT order: DC at index 0.

    K-space is (batch, coil or channel, *space). The mask, (batch or 1, 1, *space) or (*space), may be a broadcast
    view: along axes where it does not change, there is less to do. Maps are (batch or 1, coil, *space), if
    channels are coils; without them, every channel is an image of its own.
    """

    @property
    def name(self) -> str:
        """As on the command line."""

    @property
    def uses_maps(self) -> bool:
        """Whether coils are combined by their maps."""

    @property
    def fills_in(self) -> bool:
        """Whether it infers samples that were not acquired from others."""

    def reference(self, images: CoilImages, maps: Maps | None, /) -> AnyImages:
        """What fully sampled images of all coils are when they are combined: the aim of the reconstruction."""

    def __call__(self, kspace: Spectra, mask: KspaceMask, maps: Maps | None = None, /) -> AnyImages:
        """The image."""
