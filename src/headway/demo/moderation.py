"""Pictures for opennsfw: in as pixels, out as the probability that they should be held back.

Knows the model's cropping and colour means, and how to draw a harmless landscape.
"""

import io
import random

import numpy as np
from PIL import Image, ImageDraw

from headway.demo.arrays import Arrays, Floats, Pixels

__all__ = ["draw_landscape", "encode_picture", "unsafe_scores"]

_RESIZED, _CROPPED = 256, 224
_BLUE_GREEN_RED_MEANS = np.array([104, 117, 123], np.float32)


def encode_picture(picture: Pixels) -> Arrays:
    """The middle of a picture, blue first, means subtracted: (1, 224, 224, 3) float32.

    It goes through JPEG once, because the model was trained on what JPEG leaves.
    """
    margin = (_RESIZED - _CROPPED) // 2
    resized = Image.fromarray(picture).resize((_RESIZED, _RESIZED), Image.Resampling.BILINEAR)
    cropped = resized.crop((margin, margin, margin + _CROPPED, margin + _CROPPED))
    with io.BytesIO() as buffer:
        cropped.save(buffer, format="JPEG")
        pixels = np.asarray(Image.open(buffer), np.float32)
    return {"input:0": (pixels[None, :, :, ::-1] - _BLUE_GREEN_RED_MEANS).astype(np.float32)}


def unsafe_scores(outputs: Floats) -> list[float]:
    """The probability that each picture is unsafe, from (batch, [safe, unsafe]) float32."""
    return [float(row[1]) for row in outputs]


def draw_landscape(chance: random.Random, *, side: int = 256) -> Pixels:
    """Sky, sun, hills and a house: (side, side, 3) uint8."""
    image = Image.new("RGB", (side, side), (120, chance.randint(170, 210), 240))
    draw = ImageDraw.Draw(image)
    x, radius = chance.randrange(side), side // chance.randint(8, 14)
    draw.ellipse((x - radius, radius, x + radius, 3 * radius), fill=(250, 220, 80))
    for depth in range(3):
        top = side * (0.45 + 0.15 * depth)
        ridge = [(k * side / 8, top + chance.uniform(0, side / 8)) for k in range(9)]
        green = (40, 150 - 30 * depth, 60)
        draw.polygon([(0, side), *ridge, (side, side)], fill=green)
    left, wall = chance.uniform(0.2, 0.6) * side, side / 6
    draw.rectangle((left, 0.7 * side, left + wall, 0.7 * side + wall), fill=(190, 90, 60))
    roof = [(left, 0.7 * side), (left + wall / 2, 0.6 * side), (left + wall, 0.7 * side)]
    draw.polygon(roof, fill=(110, 50, 40))
    return np.asarray(image)
