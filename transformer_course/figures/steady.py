"""A renderer that rounds points to a grid, so that all machines draw the same pixels."""

from collections.abc import Sequence

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.path import Path
from matplotlib.transforms import IdentityTransform, Transform

GRID = 64  # grid points per pixel; the rounding is invisible
# Shift the grid, because many points are exactly on half or quarter pixels, where rounding would be unstable.
ASIDE = 0.3


class SteadyRenderer(RendererAgg):
    """Matplotlib's renderer, with every point rounded to a grid.

    nbval compares the HTML picture byte by byte. The last digits of a sine or a matrix product depend on the
    processor, and can change the shade of a line along a pixel edge.
    """

    def _update_methods(self) -> None:
        super()._update_methods()
        self.draw_markers = self._draw_markers
        self.draw_path_collection = self._draw_path_collection
        self.draw_quad_mesh = self._draw_quad_mesh

    def draw_path(self, gc, path, transform, rgbFace=None) -> None:
        """Draw a path."""
        super().draw_path(gc, path_on_grid(path, transform), IdentityTransform(), rgbFace)

    def draw_text(self, gc, x, y, *text, **more) -> None:
        """Draw a text."""
        super().draw_text(gc, *on_grid((x, y)), *text, **more)

    def _draw_markers(self, gc, marker, marker_transform, path, transform, *colour) -> None:
        places = path_on_grid(path, transform)
        self._renderer.draw_markers(gc, marker, marker_transform, places, IdentityTransform(), *colour)

    def _draw_path_collection(
        self, gc, transform, paths, transforms, offsets, offset_transform, *style, **more
    ) -> None:
        if len(transforms) == 0:  # if any, they apply before `transform`, as for dots
            paths, transform = [path_on_grid(path, transform) for path in paths], IdentityTransform()
        if len(offsets):
            offsets = on_grid(offset_transform.transform(offsets))
        self._renderer.draw_path_collection(
            gc, transform, paths, transforms, offsets, IdentityTransform(), *style, **more
        )

    def _draw_quad_mesh(self, gc, transform, width, height, corners, *style) -> None:
        points = on_grid(transform.transform(np.reshape(corners, (-1, 2)))).reshape(np.shape(corners))
        self._renderer.draw_quad_mesh(gc, IdentityTransform(), width, height, points, *style)


def path_on_grid(path: Path, transform: Transform) -> Path:
    """Return the path in pixels, with its points on the grid."""
    moved = Path(on_grid(transform.transform(path.vertices)), path.codes)
    moved.should_simplify, moved.simplify_threshold = path.should_simplify, path.simplify_threshold
    return moved


def on_grid(points: Sequence) -> np.ndarray:
    """Return points, in pixels, rounded to the grid."""
    return np.floor(np.ma.filled(np.ma.asarray(points, dtype=float), np.nan) * GRID + ASIDE) / GRID
