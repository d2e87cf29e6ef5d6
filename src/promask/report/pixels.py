"""Arrays and pictures as text, to be put into a page."""

import base64
import io
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Bytes = npt.NDArray[np.uint8]


def packed(values: npt.NDArray[Any]) -> dict[str, Any]:
    """An array of whole numbers, deflated and in base64, with its shape."""
    content = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
    return {"shape": list(values.shape), "data": base64.b64encode(zlib.compress(content, 9)).decode()}


def middle(values: Shaped[Tensor, "*leading height width"], most: int) -> Shaped[Tensor, "*leading rows columns"]:
    """The central part of centred arrays, at most so many rows and columns; the centre is at n // 2 again."""
    for axis in (-2, -1):
        n = values.shape[axis]
        kept = min(n, most)
        values = values.narrow(axis, n // 2 - kept // 2, kept)
    return values


def shrunk(image: Float[Tensor, "height width"], pixels: int) -> Float[Tensor, "rows columns"]:
    """An image of at most so many pixels: means over blocks."""
    height, width = image.shape
    scale = min(1.0, (pixels / (height * width)) ** 0.5)
    if scale == 1:
        return image
    return adaptive_avg_pool2d(image[None], (max(1, int(height * scale)), max(1, int(width * scale))))[0]


def grey(image: Float[Tensor, "height width"], white: float) -> str:
    """A picture in shades of grey, from black at 0 to white."""
    return _png(_levels(image, white), "L")


def coloured(image: Float[Tensor, "height width"], brightest: float, colours: str) -> str:
    """A picture in a colour map of matplotlib, from 0 to the brightest value."""
    return _png(_levels(image, brightest), "P", palette(colours))


def black_and_white(mask: Shaped[Tensor, "height width"]) -> str:
    """The picture of a mask."""
    return _png(mask.numpy().astype(np.uint8) * 255, "1")


def drawn(figure: "Figure") -> str:
    """A figure as a picture."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return _data_uri(file.getvalue())


def palette(colours: str) -> Bytes:
    """The 256 colours of a map of matplotlib, as bytes."""
    from matplotlib import colormaps

    table = colormaps[colours](np.arange(256), bytes=True)
    return np.ascontiguousarray(table[:, :3])


def _levels(image: Tensor, brightest: float) -> Bytes:
    return (image / brightest).clamp(0, 1).mul(255).round().numpy().astype(np.uint8)


def _png(pixels: Bytes, mode: str, colours: Bytes | None = None) -> str:
    from PIL import Image

    picture = Image.fromarray(pixels, "L")
    if colours is not None:
        picture.putpalette(colours.tobytes())
    if mode == "1":
        picture = picture.convert("1", dither=Image.Dither.NONE)
    file = io.BytesIO()
    picture.save(file, format="png", optimize=True)
    return _data_uri(file.getvalue())


def _data_uri(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"
