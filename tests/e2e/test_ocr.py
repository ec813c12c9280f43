"""The OCR pipeline of the rapidocr package with its three models run by Opwright, against ONNX Runtime."""

import numpy as np
import pytest
import read_page
from PIL import Image, ImageDraw, ImageFont


def draw_note():
    """Dark text on paper: digits, punctuation, upper and lower case."""
    picture = Image.new("RGB", (640, 260), (250, 248, 240))
    draw = ImageDraw.Draw(picture)
    for i, line in enumerate(
        [
            "Opwright states an operator once",
            "Total: 1,284.50 EUR (incl. 19% tax)",
            "README.md  v0.1.0",
            "THE QUICK BROWN FOX JUMPS",
        ]
    ):
        draw.text((30, 20 + 58 * i), line, fill=(20, 20, 60), font=ImageFont.load_default(size=30))
    return np.asarray(picture)[:, :, ::-1].copy()


def draw_sign():
    """Light text on a dark, noisy ground, slightly turned, in two columns."""
    picture = Image.new("RGB", (800, 420), (30, 50, 70))
    draw = ImageDraw.Draw(picture)
    for i, line in enumerate(["Platform 12", "Departure 09:47", "Track closed"]):
        draw.text((60, 70 + 100 * i), line, fill=(240, 230, 90), font=ImageFont.load_default(size=44))
    draw.text((520, 130), "Berlin Hbf", fill=(255, 255, 255), font=ImageFont.load_default(size=40))
    picture = picture.rotate(2.5, resample=Image.Resampling.BILINEAR, fillcolor=(30, 50, 70))
    noise = np.random.default_rng(7).normal(0, 8, (420, 800, 3))
    return np.clip(np.asarray(picture)[:, :, ::-1] + noise, 0, 255).astype(np.uint8)


def page():
    return np.asarray(Image.open(read_page.sample_page()).convert("RGB"))[:, :, ::-1].copy()


PICTURES = {"page": (page, 6), "note": (draw_note, 4), "sign": (draw_sign, 4)}


@pytest.fixture(scope="module")
def readers(open_model, open_reference):
    return read_page.make_reader(open_model), read_page.make_reader(open_reference)


@pytest.mark.parametrize("name", PICTURES)
def test_reads_the_same_lines(readers, name):
    make, least = PICTURES[name]
    ours, theirs = (read_page.read(reader, make()) for reader in readers)
    assert len(theirs) >= least, "the yardstick itself reads too little: the picture is no test"
    assert [text for text, _, _ in ours] == [text for text, _, _ in theirs]
    np.testing.assert_allclose([score for _, score, _ in ours], [score for _, score, _ in theirs], atol=1e-3)
    np.testing.assert_allclose([box for _, _, box in ours], [box for _, _, box in theirs], atol=1.0)


def test_reads_what_the_page_says(readers):
    """Independent of the yardstick: words that a person reads on page.png."""
    text = " ".join(line for line, _, _ in read_page.read(readers[0], page()))
    for words in [
        "Region-based segmentation",
        "Let us first determine markers of the coins",
        "histogram of grey values",
    ]:
        assert words in text


def windows(batch, height, width):
    """`batch` crops of the page, enlarged so that text fills them; normalised as the pipeline does, NCHW."""
    source = Image.fromarray(page())
    crops = []
    for i in range(batch):
        left, top = 8 + 30 * i, 10 + 20 * i
        crop = source.crop((left, top, left + min(350, 2 * width), top + 60)).resize(
            (width, height), Image.Resampling.BILINEAR
        )
        crops.append((np.asarray(crop, np.float32) / 255 - 0.5) / 0.5)
    return np.ascontiguousarray(np.stack(crops).transpose(0, 3, 1, 2))


# The detector halves its input five times; the recogniser's and the classifier's height is fixed at 48.
SIZES = {
    "det": [(1, 32, 32), (1, 96, 160), (2, 64, 96), (1, 192, 384), (1, 320, 224)],
    "cls": [(1, 48, 192), (2, 48, 192), (3, 48, 100), (6, 48, 192), (1, 48, 333)],
    "rec": [(1, 48, 320), (2, 48, 64), (1, 48, 99), (3, 48, 331), (1, 48, 640)],
}


@pytest.fixture(scope="module")
def sessions(open_model, open_reference):
    cache = {}

    def get(model):
        if model not in cache:
            path = read_page.models()[model]
            cache[model] = open_model(path), open_reference(path)
        return cache[model]

    return get


@pytest.mark.parametrize(
    "model,size",
    [(m, s) for m, sizes in SIZES.items() for s in sizes],
    ids=lambda v: v if isinstance(v, str) else "x".join(map(str, v)),
)
def test_raw_outputs(sessions, model, size):
    ours, theirs = sessions(model)
    x = windows(*size)
    name = theirs.inputs[0].name
    [expected] = theirs.run(None, {name: x})
    [got] = ours.run(None, {name: x})
    assert got.shape == expected.shape and got.dtype == expected.dtype
    assert np.ptp(expected) > 1e-2, "a flat output tests nothing"
    # Both sides add hundreds of f32 products per element in their own order, through 60 layers and a sigmoid or softmax.
    np.testing.assert_allclose(got, expected, rtol=5e-3, atol=1e-4)
    if model != "det":
        assert np.array_equal(got.argmax(-1), expected.argmax(-1))
