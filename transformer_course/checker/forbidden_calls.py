"""Find forbidden calls: functions and modules that must not do an exercise's work, whatever their name."""

import re
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

ATTENTION = (
    "scaled_dot_product|multi_?head_attention|transformer_encoder|nn.MultiheadAttention|nn.Transformer"
)
SOFTMAX = f"softmax|softmin|cross_entropy|{ATTENTION}"
# For each forbidden name, a pattern for the functions, kernels and modules that would do its work.
PATTERNS = {
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


def first_in(call: Callable[[], Any], forbidden: Sequence[str]) -> str | None:
    """Make the call, and return the name of the first forbidden function or module that it calls, or None.

    A profiler sees every call, so an alias or `from … import … as` hides nothing.
    """
    names: dict[str, None] = {}

    def record(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call":
            names[function.__name__] = None
        if event != "call":
            return
        # Count Python functions only if they belong to a library: a learner may use any name.
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        if module.startswith("torch.nn.modules."):
            names["nn." + code.co_qualname.split(".")[0]] = None
        if module.startswith("transformer_lab."):
            names[f"transformer_lab.{code.co_qualname.removesuffix('.__init__')}"] = None
        if module.split(".")[0] in LIBRARIES and not code.co_name.startswith("_"):
            names[code.co_name] = None

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(before)
    pattern = re.compile("|".join(PATTERNS.get(name, name) for name in forbidden))
    return next(filter(pattern.search, names), None)
