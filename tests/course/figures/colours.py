"""How well two colours are told from each other, by eyes that see all colours and by those that do not."""

import numpy as np
from matplotlib import colors

# From linear RGB to what is seen without one kind of cone: Machado, Oliveira and Fernandes, 2009, severity 1
EYES = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]
    ),
}
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
    """CIEDE2000 between two colours, for the eye that tells them apart worst."""
    return min(ciede2000(lab(first, eye), lab(second, eye)) for eye in EYES.values())


def lab(colour, eye):
    seen = TO_XYZ @ np.clip(eye @ linear(colour), 0, 1) / TO_XYZ.sum(axis=1)
    x, y, z = np.where(seen > 216 / 24389, np.cbrt(seen), (24389 / 27 * seen + 16) / 116)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def ciede2000(first, second):
    """Written from Sharma, Wu and Dalal, 2005."""
    (l1, a1, b1), (l2, a2, b2) = first, second
    grey = 1.5 - 0.5 * saturation((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2)
    c1, c2 = np.hypot(grey * a1, b1), np.hypot(grey * a2, b2)
    h1, h2 = np.degrees(np.arctan2([b1, b2], [grey * a1, grey * a2])) % 360
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    light, chroma, hue = (l1 + l2) / 2, (c1 + c2) / 2, h1 + turn / 2 if c1 * c2 else h1 + h2
    waves = ((0.17, 1, -30, -1), (0.24, 2, 0, 1), (0.32, 3, 6, 1), (0.2, 4, -63, -1))
    t = 1 + sum(sign * size * np.cos(np.radians(times * hue + at)) for size, times, at, sign in waves)
    squared = (light - 50) ** 2
    steps = np.array([l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))])
    dl, dc, dh = steps / [
        1 + 0.015 * squared / np.sqrt(20 + squared),
        1 + 0.045 * chroma,
        1 + 0.015 * chroma * t,
    ]
    bend = 2 * saturation(chroma) * np.sin(np.radians(60 * np.exp(-(((hue % 360 - 275) / 25) ** 2))))
    return np.sqrt(dl**2 + dc**2 + dh**2 - bend * dc * dh)


def saturation(chroma):
    return np.sqrt(chroma**7 / (chroma**7 + 25**7))
