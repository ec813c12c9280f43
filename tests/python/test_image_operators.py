"""The image operators on real pictures against scikit-image, SciPy and OpenCV, which define them the same way."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import scipy.ndimage as ndi
import skimage
import skimage.color
import skimage.feature
import skimage.filters
import skimage.io
import skimage.morphology
from opwright_session import Operator

PICTURES = ["camera.png", "coins.png", "page.png", "moon.png"]  # camera is square; the others are not
COLOURED = ["astronaut.png", "chelsea.png"]
# Rounding of results of order 1 that are sums of up to 33 terms, in the type computed with.
TOLERANCE = {"float64": 1e-14, "float32": 1e-6}


def path(name):
    return Path(skimage.data_dir) / name


def bytes_of(name):
    picture = skimage.io.imread(path(name))
    assert picture.dtype == np.uint8 and picture.ndim == 2 and picture.std() > 10
    return picture


def floats_of(name):
    return skimage.util.img_as_float64(bytes_of(name))


def check(operator, attributes, want, name, dtype):
    """`want` of the picture in f64 against the operator in `dtype`; the operator gets exactly those numbers, rounded."""
    x = floats_of(name).astype(dtype)
    [y] = Operator(None, operator, attributes)(x)
    expected = want(x.astype(np.float64))
    assert y.dtype == x.dtype and y.shape == expected.shape
    assert np.abs(expected).max() > 0.05, "the picture shows nothing to this filter"
    assert np.abs(y - expected).max() <= TOLERANCE[dtype]


FILTERS = {
    "sobel": skimage.filters.sobel,
    "sobel_rows": skimage.filters.sobel_h,
    "sobel_columns": skimage.filters.sobel_v,
    "scharr": skimage.filters.scharr,
    "scharr_rows": skimage.filters.scharr_h,
    "scharr_columns": skimage.filters.scharr_v,
    "prewitt": skimage.filters.prewitt,
    "laplacian": skimage.filters.laplace,
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("operator", FILTERS)
def test_derivative_filters(operator, name, dtype):
    check(operator, "", FILTERS[operator], name, dtype)


# scikit-image's names of what lies outside, by ours.
MODES = {"clamp": "nearest", "mirror": "reflect", "reflect": "mirror", "wrap": "wrap", "zero": "constant"}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("border", MODES)
@pytest.mark.parametrize("sigma", [0.7, 1.0, 2.5])
def test_gaussian(sigma, border, dtype):
    radius = int(4 * sigma + 0.5)
    attributes = f'sigma = {sigma}, radius = {radius}, border = "{border}"'
    want = lambda x: skimage.filters.gaussian(x, sigma=sigma, mode=MODES[border], truncate=4.0)
    check("gaussian", attributes, want, "coins.png", dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("border", MODES)
@pytest.mark.parametrize("width", [3, 5])
def test_box_blur(width, border, dtype):
    want = lambda x: ndi.uniform_filter(x, width, mode=MODES[border])
    check("box_blur", f'width = {width}, border = "{border}"', want, "coins.png", dtype)


def test_correlation_with_any_kernel():
    x = floats_of("camera.png")
    kernel = np.random.default_rng(3).uniform(-0.2, 0.2, (5, 3))
    [y] = Operator(None, "filter_2d")(x, kernel)
    assert np.abs(y - ndi.correlate(x, kernel, mode="reflect")).max() <= 1e-14


@pytest.mark.parametrize("width", [3, 5])
@pytest.mark.parametrize("name", PICTURES)
def test_order_filters_of_bytes(name, width):
    """No arithmetic, so equal."""
    x = bytes_of(name)[:200]
    window = np.ones((width, width), np.uint8)
    for operator, want in {
        "median_filter": [skimage.filters.median(x, window, mode="nearest"), cv2.medianBlur(x, width)],
        "dilate": [skimage.morphology.dilation(x, window), cv2.dilate(x, window)],
        "erode": [skimage.morphology.erosion(x, window), cv2.erode(x, window)],
    }.items():
        [y] = Operator(None, operator, f"width = {width}")(x)
        for expected in want:
            assert y.dtype == np.uint8 and np.array_equal(y, expected), operator


def test_median_of_floats():
    x = floats_of("coins.png")
    [y] = Operator(None, "median_filter")(x)
    assert np.array_equal(y, skimage.filters.median(x, np.ones((3, 3)), mode="nearest"))


def test_derivatives_against_opencv():
    """Another implementation: Sobel's kernel with whole numbers, Scharr's 3 and 10, edges mirrored."""
    x = floats_of("camera.png")
    edges = {"borderType": cv2.BORDER_REFLECT}
    for operator, want in {
        "sobel_rows": cv2.Sobel(x, cv2.CV_64F, 0, 1, **edges) / 4,
        "sobel_columns": cv2.Sobel(x, cv2.CV_64F, 1, 0, **edges) / 4,
        "scharr_rows": cv2.Scharr(x, cv2.CV_64F, 0, 1, **edges) / 16,
        "scharr_columns": cv2.Scharr(x, cv2.CV_64F, 1, 0, **edges) / 16,
        "laplacian": -cv2.Laplacian(x, cv2.CV_64F, **edges),
    }.items():
        [y] = Operator(None, operator)(x)
        assert np.abs(np.abs(y) - np.abs(want)).max() <= 1e-14, operator


@pytest.mark.parametrize("name", COLOURED)
def test_grey(name):
    x = skimage.util.img_as_float64(skimage.io.imread(path(name)))
    [y] = Operator(None, "grey")(x)
    assert y.shape == x.shape[:2] and np.abs(y - skimage.color.rgb2gray(x)).max() <= 1e-15


def canny(x, sigma, low, high):
    attributes = f"sigma = {sigma}, radius = {int(4 * sigma + 0.5)}, low = {low}, high = {high}"
    [marks] = Operator(None, "canny_candidates", attributes)(x)
    step, changed = Operator(None, "hysteresis_step"), 1
    while changed:
        marks, changed = step(marks)
    return marks == 2


@pytest.mark.parametrize("sigma, low, high", [(1.0, 0.1, 0.2), (2.0, 0.03, 0.15)])
@pytest.mark.parametrize("name", PICTURES)
def test_canny(name, sigma, low, high):
    x = floats_of(name)
    edges = canny(x, sigma, low, high)
    want = skimage.feature.canny(x, sigma=sigma, low_threshold=low, high_threshold=high)
    assert want.any() and np.array_equal(edges, want)


def test_a_picture_through_the_command(opwright, tmp_path):
    """A picture file feeds a float input as numbers in 0..1."""
    code, _, error = opwright("run", "sobel", "--input", f"x={path('coins.png')}", "--output", f"y={tmp_path}/y.npy")
    assert code == 0, error
    y = np.load(tmp_path / "y.npy")
    assert y.dtype == np.float32 and np.abs(y - skimage.filters.sobel(floats_of("coins.png"))).max() <= 1e-6
