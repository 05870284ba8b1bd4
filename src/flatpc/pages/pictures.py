"""Rows of small pictures as PNG data inside the page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from flatpc.errors import ShapeError

MISSING = (224, 123, 40)


@dataclass(frozen=True)
class Pictures:
    """Pictures of one row, with the size at which they are shown."""

    title: str
    images: tuple[str, ...]
    """PNG files in base64."""
    width: int
    height: int

    @classmethod
    def of(cls, title: str, values: Any, pixel: int) -> Pictures:
        """`values [n, height, width]`: 0 is white, 1 is black, NaN is orange."""
        values = np.asarray(values, np.float64)
        if values.ndim != 3:
            raise ShapeError(f"Pictures {title!r} have shape {values.shape}; give [n, height, width].")
        grey = np.nan_to_num(255 * (1 - np.clip(values, 0, 1)))[..., None]
        colours = np.where(np.isnan(values)[..., None], MISSING, grey).astype(np.uint8)
        _, height, width = values.shape
        return cls(title, tuple(map(_png, colours)), width * pixel, height * pixel)


def _png(colours: Any) -> str:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(colours).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()
