"""What is not a race of whole encoders: the memory of a layer, the share of the floor, rotary positions."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from benchmarks.cases import MIDDLE
from benchmarks.networks import VOCAB, Shape, networks
from benchmarks.timing import Run, able, check_equal, measure, summary
from transformer_lab import EncoderConfig, RotaryEmbedding
from transformer_lab.encoder import standard_layer
from transformer_lab.encoder_layer import to_torch_layer
from transformer_lab.rotary_embedding import rotations

LONG = (1, 8192, 512)  # batch, positions, d_model: a text whose scores do not fit into small memories
FLOORS = (Shape(32, 10, 512, 8, 6), MIDDLE, Shape(2, 512, 256, 4, 6), Shape(1, 2048, 256, 4, 4))
QUERIES = (4, 8, 512, 64)  # batch, heads, positions, d_head


@dataclass(frozen=True)
class Part:
    """One line of the table of parts."""

    what: str
    found: str
    remark: str


def parts(rounds: int, seconds: float) -> list[Part]:
    """Measure all of them, on the CPU."""
    return [*memory(), *floors(rounds, seconds), rotary(rounds, seconds)]


def memory() -> list[Part]:
    """Return how much memory one layer adds to its input and weights at its fullest, in a forward pass."""
    heads = 8
    ours = standard_layer(EncoderConfig(VOCAB, LONG[-1], heads, 4 * LONG[-1], 1, dropout=0.0)).eval()
    theirs = nn.TransformerEncoder(to_torch_layer(ours), 1, enable_nested_tensor=False).eval()
    x = torch.randn(LONG)
    found = {"ours": allocated(lambda: ours(x, need_weights=False)[0])}
    found["nn.TransformerEncoder"] = allocated(lambda: theirs(x))
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    found["nn.TransformerEncoder, fast path off"] = allocated(lambda: theirs(x))
    torch.backends.mha.set_fastpath_enabled(fast)
    scores = heads * LONG[1] ** 2 * x.element_size()
    return [
        Part(
            f"memory added by one layer at {LONG}: {name}",
            f"{peak / 1e6:,.0f} MB",
            f"largest: {most / 1e6:,.0f} MB in {operator}"
            + (", the scores of all heads, heads · n² · 4 bytes" if most == scores else ""),
        )
        for name, (peak, most, operator) in found.items()
    ]


def allocated(run: Run) -> tuple[int, int, str]:
    """Return the most bytes held at once, the largest single piece, and the operators that asked for it."""
    with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    pieces = sorted((event for event in events if event["name"] == "[memory]"), key=lambda event: event["ts"])
    held = peak = 0
    for piece in pieces:
        held += piece["args"]["Bytes"]  # negative where memory is given back
        peak = max(peak, held)
    largest = max(pieces, key=lambda piece: piece["args"]["Bytes"])
    around = [
        event["name"].removeprefix("aten::")
        for event in events
        if event.get("cat") == "cpu_op" and event["ts"] <= largest["ts"] <= event["ts"] + event["dur"]
    ]
    return peak, largest["args"]["Bytes"], " > ".join(around[-2:])


def floors(rounds: int, seconds: float) -> list[Part]:
    """Return which share of our time the matrix products and the fused attention take by themselves."""
    found = []
    for shape in FLOORS:
        ours = networks(shape).ours.eval()
        ids = torch.randint(VOCAB, (shape.batch, shape.positions))
        runs = {"ours": encoding(ours, ids), "floor": floor(shape)}
        able(runs, train=False)
        times = measure(runs, rounds, seconds, train=False)
        sizes = f"({shape.batch}, {shape.positions}, {shape.d_model}, {shape.n_heads}, {shape.n_layers})"
        found.append(
            Part(f"share of the floor at {sizes}", summary(times.ratios("floor")),
                 "time of addmm and fused attention alone ÷ ours; 1 cannot be passed")
        )  # fmt: skip
    return found


def encoding(encoder: nn.Module, ids: Tensor) -> Run:
    return lambda: encoder(ids, need_weights=False)[0]


def floor(shape: Shape) -> Run:
    """Return a run that does an encoder's matrix products and attention, and nothing between them."""
    d_model, d_ff, tokens = shape.d_model, 4 * shape.d_model, shape.batch * shape.positions
    x, wide = torch.randn(tokens, d_model), torch.randn(tokens, d_ff)
    square, up, down = torch.randn(d_model, d_model), torch.randn(d_ff, d_model), torch.randn(d_model, d_ff)
    heads = x.view(shape.batch, shape.positions, shape.n_heads, -1).transpose(1, 2)

    def run() -> Tensor:
        for _ in range(shape.n_layers):
            for _ in range(4):
                F.linear(x, square, square[0])
            F.scaled_dot_product_attention(heads, heads, heads)
            F.linear(x, up, down[0])
            F.linear(wide, down, square[0])
        return x

    return run


def rotary(rounds: int, seconds: float) -> Part:
    """Return the time of Hugging Face's function of Llama, its table given, ÷ ours: queries and keys."""
    query, key = torch.randn(QUERIES), torch.randn(QUERIES)
    ours = RotaryEmbedding(QUERIES[-1])
    turns = rotations(torch.arange(QUERIES[-2]), QUERIES[-1])
    cos, sin = (torch.cat([part, part], dim=-1).float()[None] for part in (turns.real, turns.imag))
    both: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
        "ours": lambda: (ours(query), ours(key)),
        "Hugging Face": lambda: apply_rotary_pos_emb(query, key, cos, sin),
    }
    joined = {name: (lambda turn=turn: torch.stack(turn())) for name, turn in both.items()}
    check_equal(joined, torch.ones(2, *QUERIES[:-1], dtype=torch.bool), 2e-5)
    firsts = {name: (lambda turn=turn: turn()[0]) for name, turn in both.items()}
    times = measure(firsts, 10 * rounds, seconds, train=False)
    return Part(f"rotary positions on {QUERIES}, queries and keys", summary(times.ratios("Hugging Face")),
                "time of Hugging Face's function of Llama, its table given, ÷ ours")  # fmt: skip
