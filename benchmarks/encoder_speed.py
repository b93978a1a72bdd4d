"""Time this course's encoder beside PyTorch's and Hugging Face's, on the same weights and inputs.

`make bench`, or `python -m benchmarks.encoder_speed`. All of them run in one process, one after the other in
random order, round after round, on one thread, timed by that thread's own clock: a busy machine disturbs all
alike. The outputs are compared before anything is timed. Printed is the median of their time ÷ ours: above 1,
ours is faster.
"""

import argparse
import random
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from tests.peers import from_bert, to_torch_encoder
from transformer_lab import Encoder, EncoderConfig, padding_mask_from_lengths
from transformer_lab.mask_conventions import to_attention_mask, to_key_padding_mask
from transformer_lab.packing import encode_packed

VOCAB = 1000
SHAPES = ((32, 10, 512, 8, 6), (8, 128, 256, 4, 6))  # batch, positions, d_model, heads, layers
Run = Callable[[], Tensor]


@dataclass(frozen=True)
class Contestants:
    """The same network four times, and what it reads."""

    ours: Encoder
    torchs: nn.TransformerEncoder
    nested: nn.TransformerEncoder
    bert: BertModel
    token_ids: Tensor
    may_attend: Tensor

    def runs(self, *, masked: bool) -> dict[str, Run]:
        """Name → a function that encodes the ids; the others are measured against the first."""
        ids, mask = self.token_ids, self.may_attend if masked else None
        ignored = to_key_padding_mask(mask) if masked else None
        padded = {
            "ours": lambda: self.ours(ids, mask, need_weights=False)[0],
            "torch": lambda: self.torchs(self.ours.embed(ids), src_key_padding_mask=ignored),
            "torch nested": lambda: self.nested(self.ours.embed(ids), src_key_padding_mask=ignored),
            "Hugging Face BERT": partial(self.run_bert, to_attention_mask(mask) if masked else None),
        }
        if not masked:
            return padded
        packed = {"ours packed": lambda: encode_packed(self.ours, ids, mask)}
        return packed | {"ours padded": padded.pop("ours")} | padded

    def run_bert(self, attention_mask: Tensor | None) -> Tensor:
        return self.bert(self.token_ids, attention_mask=attention_mask).last_hidden_state


def contestants(
    batch: int, positions: int, d_model: int, n_heads: int, n_layers: int, activation: str
) -> Contestants:
    """Build one network with random weights, and give the same weights to all."""
    settings = BertConfig(
        vocab_size=VOCAB, hidden_size=d_model, num_attention_heads=n_heads, intermediate_size=4 * d_model,
        num_hidden_layers=n_layers, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        layer_norm_eps=1e-5, hidden_act=activation, attn_implementation="sdpa",
    )  # fmt: skip
    bert = BertModel(settings, add_pooling_layer=False)
    config = EncoderConfig(
        VOCAB, d_model, n_heads, 4 * d_model, n_layers, max_length=512, dropout=0.0, activation=activation,
        positions="learned", scale_embedding=False, embedding_norm=True,
    )  # fmt: skip
    ours = Encoder(config)
    ours.load_state_dict(from_bert(bert.state_dict()))
    layers = {name: tensor for name, tensor in ours.state_dict().items() if name.startswith("layers.")}
    torchs, nested = (torch_encoder(config, layers, nested=nested) for nested in (False, True))
    lengths = torch.randint(positions // 5, positions + 1, (batch,))
    lengths[0] = positions
    mask = padding_mask_from_lengths(lengths)
    return Contestants(ours, torchs, nested, bert, torch.randint(VOCAB, (batch, positions)), mask)


def torch_encoder(
    config: EncoderConfig, weights: dict[str, Tensor], *, nested: bool
) -> nn.TransformerEncoder:
    """Build nn.TransformerEncoder with our weights; `nested` lets it drop the padding, in inference only."""
    layer = nn.TransformerEncoderLayer(
        config.d_model, config.n_heads, config.d_ff, 0.0, config.activation, batch_first=True
    )
    encoder = nn.TransformerEncoder(layer, config.n_layers, enable_nested_tensor=nested)
    encoder.load_state_dict(to_torch_encoder(weights))
    return encoder


def check_equal(runs: dict[str, Run], real: Tensor) -> float:
    """Return the largest difference from our output on real tokens; raise if it is more than rounding."""
    with torch.no_grad():
        first, *others = [run()[real] for run in runs.values()]
    difference = max((first - other).abs().max().item() for other in others)
    if difference > 2e-5:
        raise RuntimeError(
            f"the outputs differ by {difference:.1e}, wanted at most 2e-5: they are not the same work"
        )
    return difference


def measure(runs: dict[str, Run], rounds: int, *, train: bool) -> dict[str, list[float]]:
    """Return seconds of each run in each round; the first two rounds only warm up."""
    seconds = {name: [] for name in runs}
    for _ in range(rounds + 2):
        for name in random.sample(list(runs), len(runs)):
            start = time.thread_time()
            with torch.inference_mode(not train):
                output = runs[name]()
                if train:
                    output.sum().backward()
            seconds[name].append(time.thread_time() - start)
    return {name: times[2:] for name, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="timed rounds (default 20)")
    parser.add_argument("--activation", choices=("relu", "gelu"), default="relu", help="default relu")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # nested tensors announce that they are a prototype
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    for shape in SHAPES:
        everyone = contestants(*shape, options.activation)
        print(f"\nbatch, positions, d_model, heads, layers = {shape}; "
              f"{everyone.may_attend.float().mean():.0%} of the tokens are real when masked")  # fmt: skip
        for train in (False, True):
            for model in (everyone.ours, everyone.torchs, everyone.nested, everyone.bert):
                model.train(train)
            for masked in (False, True):
                report(everyone, options.rounds, train=train, masked=masked)


def report(everyone: Contestants, rounds: int, *, train: bool, masked: bool) -> None:
    """Print one line: what was done, our milliseconds, and every other's time ÷ ours."""
    runs = everyone.runs(masked=masked)
    real = everyone.may_attend[:, 0, 0] if masked else torch.ones_like(everyone.token_ids, dtype=torch.bool)
    difference = check_equal(runs, real)
    seconds = measure(runs, rounds, train=train)
    (ours, base), *others = seconds.items()
    ratios = [
        f"{name} {statistics.median(b / a for a, b in zip(base, times, strict=True)):.2f}"
        for name, times in others
    ]
    work = f"{'forward + backward' if train else 'forward'}{', masked' if masked else ''}"
    print(f"  {work:26} {ours} {1000 * statistics.median(base):6.1f} ms = 1.00   {'   '.join(ratios)}"
          f"   (outputs agree to {difference:.0e})")  # fmt: skip


if __name__ == "__main__":
    main()
