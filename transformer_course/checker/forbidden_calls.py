"""What must not do an exercise's work: a ready-made function under any of its names."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

ATTENTION = (
    "scaled_dot_product|multi_?head_attention|transformer_encoder|nn.MultiheadAttention|nn.Transformer"
)
SOFTMAX = f"softmax|softmin|cross_entropy|{ATTENTION}"
# What is banned, and what does its work: functions, kernels and modules whose name holds one of these.
BANS = {
    "softmax": SOFTMAX,
    "log_softmax": SOFTMAX,
    "scaled_dot_product_attention": ATTENTION,
    "multi_head_attention_forward": ATTENTION,
    "layer_norm": "layer_norm|group_norm|batch_norm|instance_norm",
    "rms_norm": "rms_norm|layer_norm|group_norm",
    "corrcoef": "corrcoef|pearsonr|spearmanr",
    "nn.Module": r"^nn\.",
}
LIBRARIES = "torch", "numpy", "scipy", "sklearn"


def done_by(call: Callable[[], Any], banned: Sequence[str]) -> str | None:
    """Make the call; the first ready-made thing called in it that is banned.

    Python tells a profiler of every call, so it makes no difference by what name a function is reached.
    """
    names: dict[str, None] = {}

    def look(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call":
            names[function.__name__] = None
        elif event == "call":
            names.update(dict.fromkeys(_names(frame)))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(before)
    forbidden = re.compile("|".join(BANS.get(each, each) for each in banned))
    return next(filter(forbidden.search, names), None)


def _names(frame: FrameType) -> Iterator[str]:
    """Of a function of a library: a learner's own may bear any name."""
    module = frame.f_globals.get("__name__", "")
    if module.startswith("torch.nn.modules."):
        yield "nn." + frame.f_code.co_qualname.split(".")[0]
    if module.startswith("transformer_lab."):
        yield f"transformer_lab.{frame.f_code.co_qualname.removesuffix('.__init__')}"
    if module.split(".")[0] in LIBRARIES and not frame.f_code.co_name.startswith("_"):
        yield frame.f_code.co_name
