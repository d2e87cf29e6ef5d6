"""How metrics are written, and which way is better."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """The heading of its column, the digits, and the good direction."""

    heading: str
    style: str
    sign: int
    """1 if more is better, -1 if less is."""


METRICS: Mapping[str, Metric] = {
    "psnr": Metric("PSNR (dB)", ".2f", 1),
    "ssim": Metric("SSIM", ".4f", 1),
    "nmse": Metric("NMSE", ".5f", -1),
}
