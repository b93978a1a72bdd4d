"""The results as Markdown tables: the time of each other encoder ÷ ours."""

import datetime
import platform
import statistics
from collections.abc import Iterable
from pathlib import Path

import torch

from benchmarks.cases import Measured
from benchmarks.parts import Part
from benchmarks.timing import LEVEL, summary

HOW_TO_READ = f"""\
The time of the others ÷ ours, forward and with the backward pass: the median of the rounds, in brackets their
middle half. **▲ ours is faster**, ≈ level (within {LEVEL - 1:.0%}), ▼ ours is slower; — could not be timed,
see below the table. Same weights and inputs everywhere, no dropout; the outputs were compared before anything
was timed.
"""
AXES_TOLD = {
    "length": "Nothing is padded; need_weights=False.",
    "raggedness": "Eight texts of at most 128 tokens, padded to the longest; ours packs them.",
    "dtype": "Eight texts of 128 tokens. The models are cast; autocast keeps float32 weights.",
}


def verdict(ratio: float) -> str:
    """Return a sign for ours: faster, slower or level."""
    return "▲" if ratio >= LEVEL else "▼" if ratio <= 1 / LEVEL else "≈"


def machine(device: str) -> str:
    """Say what the times were taken on."""
    cpuinfo = Path("/proc/cpuinfo")  # Linux; elsewhere Python knows the name
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    if device == "cuda":
        processor = torch.cuda.get_device_name()
    capability = "" if device == "cuda" else f" ({torch.backends.cpu.get_cpu_capability()})"
    return (
        f"{processor}{capability}, {torch.get_num_threads()} thread, torch {torch.__version__}, "
        f"{datetime.date.today()}"
    )


def markdown(found: list[Measured], parts: list[Part], device: str) -> str:
    """Return the whole page: how to read it, a table for each axis, and one of parts."""
    blocks = ["# How fast is this encoder?", f"`make bench` wrote this. {machine(device)}.", HOW_TO_READ]
    if len(found) and parts:
        blocks.append("![The same as a picture: a row for each encoder, a dot for its ratio](results.png)")
    for axis in dict.fromkeys(one.case.axis for one in found):
        chosen = [one for one in found if one.case.axis == axis]
        blocks += [f"## {axis.capitalize()}", AXES_TOLD[axis], table(chosen), remarks(chosen)]
    if parts:
        rows = [(part.what, part.found, part.remark) for part in parts]
        blocks += ["## Parts", lines(("what", "found", ""), rows)]
    return "\n\n".join(block.strip() for block in blocks if block) + "\n"


def table(found: list[Measured]) -> str:
    """Return a row for each case, forward and with backward, a column for each other encoder."""
    names = dict.fromkeys(name for one in found for name in (*one.unable, *list(one.times.seconds)[1:]))
    ours, _ = found[0].times.base()
    heads = ("case", "(batch, positions, d_model, heads, layers)", "work", f"{ours}, ms", *names)
    rows = []
    for one in found:
        shape = one.case.shape
        sizes = f"({shape.batch}, {shape.positions}, {shape.d_model}, {shape.n_heads}, {shape.n_layers})"
        work = "forward + backward" if one.train else "forward"
        _, base = one.times.base()
        rows.append((one.case.label, sizes, work, f"{1000 * base:.1f}", *(cell(one, name) for name in names)))
    return lines(heads, rows)


def cell(one: Measured, name: str) -> str:
    if name in one.unable:
        return "—"
    if name not in one.times.seconds:
        return ""
    ratios = one.times.ratios(name)
    sign = verdict(statistics.median(ratios))
    text = f"{sign} {summary(ratios)}"
    return f"**{text}**" if sign == "▲" else text


def remarks(found: list[Measured]) -> str:
    """Say how well the outputs agree, and why some could not be timed."""
    agree = {}
    for one in found:
        agree[one.case.dtype] = max(one.difference, agree.get(one.case.dtype, 0.0))
    told = ", ".join(f"{difference:.0e} in {dtype}" for dtype, difference in agree.items())
    reasons = dict.fromkeys(
        f"— {name}, {one.case.label}, {'forward + backward' if one.train else 'forward'}: {reason}."
        for one in found
        for name, reason in one.unable.items()
    )
    return "\n\n".join([f"The outputs agree to {told}.", *reasons])


def lines(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    heads = list(heads)
    written = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in written)
