"""The course's own encoder, with the weights of all-MiniLM-L6-v2, as a file that a browser runs: ONNX.

Weights are stored in 16 bits and computed with in 32, which halves the download. What that costs is
measured here: the file is refused if a step differs from PyTorch's by more than `MOST_DIFFERENCE`, or if it
is too large.
"""

import json
import logging
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import nbformat
import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

from live.steps import INPUTS, OUTPUTS, Steps, inputs_of, rounded
from live.stored import TRIES, banks, stored
from transformer_course.lessons import notebook
from transformer_lab.pretrained_encoder import (
    TOKENIZER_FILE,
    Tokenizer,
    find_model,
    load_minilm,
)

MOST_DIFFERENCE = 1e-3  # of a step's largest number
MOST_BYTES = 46e6
MOST_STORED = 150e3  # bytes of the first try, with which a first visit begins
# Short, long, doubled, with signs that the vocabulary does not know; the last two are one batch with padding.
TEXTS = (
    "The old cat met the young cat.",
    "a",
    "My aunt, a nurse, works at night.",
    "She paid money into the bank, and sat on the bank of the river.",
    "日本語 and العربية and 😀, in one line?",
    "Transformers transform " * 12,
    "To be, or not to be, that is the question: " * 3,
    "1 + 1 = 2; 2 + 2 = 4 (not 5)!",
    "The boy saw the bear before the bear saw the boy.",
    "the " * 62,  # doubles rounding: the worst that was found
)
PAIR = ("The old cat met the young cat.", "Snow fell.")


def export(folder: Path) -> dict:
    """Write encoder.onnx, tokenizer.json and the stored tries; return what was measured, and what is shown.

    Raises:
        ValueError: a file is too large, or a step further off than `MOST_DIFFERENCE` of its largest number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    encoder, tokenizer = load_minilm(dtype=torch.float32)
    model, file = Steps(encoder).eval(), folder / "encoder.onnx"
    write_model(model, tokenizer, file)
    write_json(folder / TOKENIZER_FILE, unpadded())
    for number, wanted in enumerate(TRIES):
        write_json(folder / f"try-{number}.json", stored(model, tokenizer, wanted))
    difference = largest_difference(model, tokenizer, file)
    sizes = {"bytes": file.stat().st_size, "stored": (folder / "try-0.json").stat().st_size}
    measured = sizes | {"difference": difference}
    for name, most in {"bytes": MOST_BYTES, "stored": MOST_STORED, "difference": MOST_DIFFERENCE}.items():
        if measured[name] > most:
            raise ValueError(f"{name} is {measured[name]:.2g}, wanted at most {most:.2g}")
    return measured | {"roles": roles(), "tries": TRIES, "banks": banks(model, tokenizer)}


def write_model(model: Steps, tokenizer: Tokenizer, file: Path) -> None:
    """Export the model for one or more texts of any length, its weights in 16 bits."""
    inputs = inputs_of(tokenizer(list(PAIR)))
    texts, length = torch.export.Dim("texts", min=1, max=8), torch.export.Dim("length", min=2, max=256)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it misses torchvision, which nothing here needs
    with warnings.catch_warnings(action="ignore"):  # it says that axes of equal length share a name
        program = torch.onnx.export(
            model,
            inputs,
            dynamo=True,
            verbose=False,
            dynamic_shapes=({0: texts, 1: length}, {0: texts, 3: length}, {}, {}, {}),
            input_names=INPUTS,
            output_names=OUTPUTS,
        )
    program.save(file, external_data=False)
    onnx.save(with_halved_weights(onnx.load(file)), file)


def with_halved_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Store each large weight as whole numbers up to ±32,767 and, for each row, the size of one step.

    Cast and Mul make it float32 again when the model is loaded. Within a row these steps are finer than
    those of float16 for all but the smallest numbers.
    """
    restored = []
    for weight in list(model.graph.initializer):
        if weight.data_type != TensorProto.FLOAT or np.prod(weight.dims) < 1000:
            continue
        name, numbers = weight.name, numpy_helper.to_array(weight)
        step = np.abs(numbers).max(axis=-1, keepdims=True) / np.float32(32_767)
        whole = np.rint(numbers / np.where(step, step, 1)).astype(np.int16)
        weight.CopyFrom(numpy_helper.from_array(whole, f"{name}.whole"))
        model.graph.initializer.append(numpy_helper.from_array(step, f"{name}.step"))
        restored.append(helper.make_node("Cast", [f"{name}.whole"], [f"{name}.cast"], to=TensorProto.FLOAT))
        restored.append(helper.make_node("Mul", [f"{name}.cast", f"{name}.step"], [name]))
    nodes = list(model.graph.node)
    for node in nodes:
        del node.metadata_props[:]  # where in whose files each line of Python stood
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.extend(restored + nodes)
    return model


@torch.no_grad()
def largest_difference(model: Steps, tokenizer: Tokenizer, file: Path) -> float:
    """Return how far a step is from PyTorch's over all texts, as a share of its largest number."""
    session, largest = onnxruntime.InferenceSession(file), 0.0
    for texts in [*([text] for text in TEXTS), list(PAIR)]:
        for positions in (1.0, 0.0):
            inputs = inputs_of(tokenizer(texts), positions)
            got = session.run(OUTPUTS, dict(zip(INPUTS, (x.numpy() for x in inputs), strict=True)))
            for ours, pytorchs in zip(got, model(*inputs), strict=True):
                largest = max(largest, np.abs(ours - pytorchs.numpy()).max() / pytorchs.abs().max().item())
    return float(largest)


def unpadded() -> dict:
    """Return the published tokenizer without its padding to 128 tokens, and its cut there."""
    published = json.loads((find_model() / TOKENIZER_FILE).read_text("utf-8"))
    return published | {"truncation": None, "padding": None}


def roles() -> dict[str, list]:
    """Return each role's score of all heads, as lesson 09 computes it: the lesson's own cells are run."""
    cells = {cell.id: cell.source for cell in nbformat.read(notebook(9), as_version=4).cells}
    names: dict = {}
    lesson = """
import torch
from transformer_lab.diagnostics import attention_on
from transformer_lab.pretrained_encoder import attention_maps, load_minilm
encoder, tokenizer = load_minilm()
"""
    with redirect_stdout(None):
        exec("\n".join([lesson, cells["see-wanted"], cells["see-roles"]]), names)
    return {role: rounded(scores) for role, scores in names["roles"].items()}  # (layers, heads) each


def write_json(file: Path, content: object) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), "utf-8")
