"""How well two colours are told from each other, by eyes that see all colours and by those that do not."""

import numpy as np
from matplotlib import colors

# From linear RGB to what is seen: by all cones, and without one kind of them (protanopia, deuteranopia,
# tritanopia): Machado, Oliveira and Fernandes, 2009, severity 1
EYES = (
    np.eye(3),
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
)
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
)


def linear(colour):
    c = np.array(colors.to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(first, second):
    """WCAG 2.1's contrast ratio of two colours, written from its definition."""
    dark, light = sorted(linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (first, second))
    return (light + 0.05) / (dark + 0.05)


def apart(first, second):
    """The distance of two colours in CIELAB, for the eye that tells them apart worst."""
    return min(np.linalg.norm(lab(first, eye) - lab(second, eye)) for eye in EYES)


def lab(colour, eye):
    seen = TO_XYZ @ np.clip(eye @ linear(colour), 0, 1) / TO_XYZ.sum(axis=1)
    x, y, z = np.where(seen > 216 / 24389, np.cbrt(seen), (24389 / 27 * seen + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
