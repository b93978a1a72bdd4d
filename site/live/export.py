"""The course's own encoder, with the weights of all-MiniLM-L6-v2, as a file that a browser runs: ONNX.

Weights are stored in 16 bits and computed with in 32, which halves the download. What that costs is
measured here: the file is refused if a step differs from PyTorch's by more than `MOST_DIFFERENCE`, or if it
is too large.
"""

import base64
import json
import logging
import sys
import warnings
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import nbformat
import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from transformer_course.lessons import notebook
from transformer_lab import Encoder
from transformer_lab.encoder import mean_pool
from transformer_lab.pretrained_encoder import (
    TOKENIZER_FILE,
    TokenBatch,
    Tokenizer,
    find_model,
    load_minilm,
)

MOST_DIFFERENCE = 1e-3  # of a step's largest number
MOST_BYTES = 46e6
MOST_STORED = 150e3  # bytes of the example, with which a first visit begins
EXAMPLE, EXAMPLE_LAYER, SHOWN_NEURONS = "The old cat met the young cat.", 2, 8
BANKS = ("We sat on the river bank.", "I put money in the bank.", "The bank lent us the money.")
# Short, long, doubled, with signs that the vocabulary does not know; the last two are one batch with padding.
TEXTS = (
    EXAMPLE,
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
# What a layer's parts make, (batch, position, features) each: the walk shows them in this order.
OF_LAYER = {
    "queries": "attention.query_projection",
    "keys": "attention.key_projection",
    "values": "attention.value_projection",
    "attended": "attention.output_projection",
    "middle": "attention_norm",
    "neurons": "feed_forward.activation",
    "fed": "feed_forward",
    "leaving": "",
}
INPUTS = ("ids", "may_attend", "positions", "heads", "layers")
OUTPUTS = ("words", "placed", "entering", *OF_LAYER)


class Steps(nn.Module):
    """Token ids in; out comes what each part of the encoder makes on the way, as the parts themselves say it.

    Scores and weights are left to the page: they follow from queries and keys.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.mean_position = nn.Buffer(encoder.positions.table.mean(dim=0))
        self.made: dict[str, list[Tensor]] = {name: [] for name in OF_LAYER}
        self.kept: list[Tensor] = []  # of each layer, 1 for a head that stays
        for number, layer in enumerate(encoder.layers):
            for name, part in OF_LAYER.items():
                layer.get_submodule(part).register_forward_hook(partial(self.note, name))
            layer.attention.output_projection.register_forward_pre_hook(partial(self.silence, number))

    def note(self, name: str, part: nn.Module, inputs: tuple, output: Tensor | tuple) -> None:
        """Note what a part has made; of a layer, its tokens without the weights."""
        self.made[name].append(output[0] if isinstance(output, tuple) else output)

    def silence(self, number: int, part: nn.Module, inputs: tuple) -> tuple[Tensor]:
        """Set what the heads bring that are taken away to 0, before the output projection joins all."""
        (heads,) = inputs  # (batch, position, d_model)
        kept = self.kept[number].repeat_interleave(heads.shape[-1] // len(self.kept[number]))
        return (heads * kept,)

    def forward(
        self, ids: Tensor, may_attend: Tensor, positions: Tensor, heads: Tensor, layers: Tensor
    ) -> tuple[Tensor, ...]:
        """Return `OUTPUTS`: words and placed (batch, length, d_model), the others with all layers in front.

        ids: (batch, length)
        may_attend: (batch, 1, 1, length), True = may be looked at
        positions: 1 as trained; 0 gives every token the same row, the mean of the table's rows
        heads: (layers, heads), 1 as trained; 0 takes a head away
        layers: (layers), 1 as trained; 0 hands the tokens on as they are
        """
        self.made, self.kept = {name: [] for name in OF_LAYER}, list(heads)
        words = self.encoder.embedding(ids)
        rows = self.encoder.positions.table[: ids.shape[1]]
        placed = words + self.mean_position + positions * (rows - self.mean_position)
        x, entering = self.encoder.embedding_norm(placed), []
        for number, layer in enumerate(self.encoder.layers):
            entering.append(x)
            changed, _ = layer(x, may_attend=may_attend)
            x = layers[number] * changed + (1 - layers[number]) * x
            self.made["leaving"][-1] = x
        return words, placed, torch.stack(entering), *(torch.stack(each) for each in self.made.values())


def export(folder: Path) -> dict:
    """Write encoder.onnx, tokenizer.json and example.json; return what was measured, and the roles of heads.

    Raises:
        ValueError: a file is too large, or a step further off than `MOST_DIFFERENCE` of its largest number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    encoder, tokenizer = load_minilm(dtype=torch.float32)
    model, file = Steps(encoder).eval(), folder / "encoder.onnx"
    write_model(model, tokenizer, file)
    write_json(folder / TOKENIZER_FILE, unpadded())
    write_json(folder / "example.json", example(model, tokenizer))
    stored = (folder / "example.json").stat().st_size
    difference = largest_difference(model, tokenizer, file)
    measured = {"bytes": file.stat().st_size, "stored": stored, "difference": difference}
    for name, most in {"bytes": MOST_BYTES, "stored": MOST_STORED, "difference": MOST_DIFFERENCE}.items():
        if measured[name] > most:
            raise ValueError(f"{name} is {measured[name]:.2g}, wanted at most {most:.2g}")
    return measured | {"roles": roles()}


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


def inputs_of(batch: TokenBatch, positions: float = 1.0) -> tuple[Tensor, ...]:
    """Return the inputs for a batch; no head and no layer is taken away."""
    return batch.token_ids, batch.may_attend, torch.tensor(positions), torch.ones(6, 12), torch.ones(6)


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


@torch.no_grad()
def example(model: Steps, tokenizer: Tokenizer) -> dict:
    """Return what the page shows before anything is loaded: a text, one layer's steps, and all the maps."""
    batch = tokenizer([EXAMPLE])
    made = dict(zip(OUTPUTS, model(*inputs_of(batch)), strict=True))
    steps = {name: made[name][0] for name in ("words", "placed")}
    steps["normed"] = made["entering"][0, 0]
    steps |= {name: made[name][EXAMPLE_LAYER, 0] for name in ("entering", *OF_LAYER)}
    strongest = steps.pop("neurons").topk(SHOWN_NEURONS)  # of each token
    maps = torch.stack(model.encoder(batch.token_ids)[1])[:, 0]
    return {
        "text": EXAMPLE,
        "tokens": batch.tokens[0],
        "ids": batch.token_ids[0].tolist(),
        "layer": EXAMPLE_LAYER,
        "steps": {name: packed(step) for name, step in steps.items()},
        "neurons": [strongest.indices.tolist(), rounded(strongest.values)],
        "maps": base64.b64encode((255 * maps).round().to(torch.uint8).numpy().tobytes()).decode(),
        "end": packed(made["leaving"][-1, 0].mean(dim=0, keepdim=True)),
        "banks": banks(model, tokenizer),
    }


def packed(step: Tensor) -> list:
    """Return (position, features) as each position's unit, and whole numbers of 16 bits in base 64."""
    units = step.abs().amax(dim=-1, keepdim=True) / 32_767
    whole = (step / units).round().to(torch.int16).numpy()
    return [units.flatten().tolist(), base64.b64encode(whole.tobytes()).decode()]


def banks(model: Steps, tokenizer: Tokenizer) -> dict:
    """Return how alike three texts with *bank* are, and the word in them, entering and after each layer."""
    batch = tokenizer(list(BANKS))
    made = dict(zip(OUTPUTS, model(*inputs_of(batch)), strict=True))
    place = [tokens.index("bank") for tokens in batch.tokens]
    words = torch.cat([made["entering"][:1], made["leaving"]])[:, range(len(BANKS)), place]
    alike = [rounded(unit @ unit.mT) for unit in nn.functional.normalize(words, dim=-1)]  # of each stage
    vectors = nn.functional.normalize(mean_pool(made["leaving"][-1], batch.may_attend), dim=-1)
    return {"texts": BANKS, "cosines": rounded(vectors @ vectors.mT), "word": "bank", "stages": alike}


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
from transformer_lab.diagnostics.head_roles import attention_on
from transformer_lab.pretrained_encoder import attention_maps, load_minilm
encoder, tokenizer = load_minilm()
"""
    with redirect_stdout(None):
        exec("\n".join([lesson, cells["see-wanted"], cells["see-roles"]]), names)
    return {role: rounded(scores) for role, scores in names["roles"].items()}  # (layers, heads) each


def rounded(numbers: Tensor) -> list:
    """Return nested lists with four digits behind the point."""
    return np.round(numbers.double().numpy(), 4).tolist()


def write_json(file: Path, content: object) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), "utf-8")


if __name__ == "__main__":
    print(export(Path(sys.argv[1])))
