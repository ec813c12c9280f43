"""Reads the text off a picture: RapidOCR's own Python code before and after, every model run by Opwright.

python examples/read_page.py [PICTURE]      (page.png of scikit-image when none is named)
"""

import argparse
import logging
import sys
import time
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))


def models():
    """The paths of the three models in the rapidocr package: where text is, which way up it is, what it says."""
    import rapidocr

    folder = Path(rapidocr.__file__).parent / "models"
    return {
        "det": folder / "PP-OCRv6_det_small.onnx",
        "cls": folder / "ch_ppocr_mobile_v2.0_cls_mobile.onnx",
        "rec": folder / "PP-OCRv6_rec_small.onnx",
    }


def sample_page():
    """A photographed page of text that the scikit-image package carries."""
    import skimage

    return Path(skimage.__file__).parent / "data" / "page.png"


def make_reader(open_model):
    """RapidOCR with its inference engine replaced.

    `open_model(path)` returns an object with run(wanted, inputs) -> list of arrays, metadata(key) -> text or None, and
    `inputs`, each with a name. RapidOCR asks get_engine for a class that it calls with a model's settings; it then calls
    the object with one array, and reads the recogniser's alphabet from the model's metadata.
    """
    import rapidocr
    from rapidocr.ch_ppocr_cls import main as cls
    from rapidocr.ch_ppocr_det import main as det
    from rapidocr.ch_ppocr_rec import main as rec

    class Engine:
        def __init__(self, settings):
            self.session = open_model(models()[settings.task_type.value])
            self.last_input = None

        def __call__(self, array):
            self.last_input = array
            return self.session.run(None, {self.session.inputs[0].name: array})[0]

        def have_key(self, key="character"):
            return self.session.metadata(key) is not None

        def get_character_list(self, key="character"):
            return self.session.metadata(key).splitlines()

    reader = rapidocr.RapidOCR(params={"Global.log_level": "error"})
    logging.getLogger("RapidOCR").setLevel(logging.ERROR)
    originals = {module: module.get_engine for module in (det, cls, rec)}
    try:
        for module in originals:
            module.get_engine = lambda engine_type: Engine
        reader._load_det_model(), reader._load_cls_model(), reader._load_rec_model()
    finally:
        for module, original in originals.items():
            module.get_engine = original
    return reader


def read(reader, picture):
    """(text, score, box) of each line, from the top down."""
    result = reader(picture)
    return [] if result.txts is None else list(zip(result.txts, result.scores, result.boxes))


def main():
    parser = argparse.ArgumentParser(description="Reads the text off a picture, every model run by Opwright.")
    parser.add_argument("picture", nargs="?", help="a PNG or JPEG (default: a photographed page)")
    parser.add_argument("--threads", type=int, default=0, help="0 (default): all cores")
    parser.add_argument("--save-input", metavar="FILE", help="write what the detection model was given, as .npz")
    arguments = parser.parse_args()
    from opwright_session import OpwrightError, Session

    picture = Path(arguments.picture) if arguments.picture else sample_page()
    if not picture.is_file():
        sys.exit(f"error: there is no picture '{picture}'.")
    try:
        start = time.perf_counter()
        reader = make_reader(lambda path: Session(path, threads=arguments.threads))
        prepared = time.perf_counter()
        lines = read(reader, str(picture))  # compiles what depends on sizes
        first = time.perf_counter()
        read(reader, str(picture))
        warm = time.perf_counter()
    except (OpwrightError, OSError) as error:
        sys.exit(f"error: {error}")
    if arguments.save_input:
        detector = reader.text_det.session
        numpy.savez(arguments.save_input, **{detector.session.inputs[0].name: detector.last_input})
    for text, score, _ in lines:
        print(f"  {score:.3f}  {text}")
    print(
        f"  {len(lines)} lines. Three models prepared in {1000 * (prepared - start):.0f} ms; first reading"
        f" {1000 * (first - prepared):.0f} ms,\n  second {1000 * (warm - first):.0f} ms."
    )


if __name__ == "__main__":
    main()
