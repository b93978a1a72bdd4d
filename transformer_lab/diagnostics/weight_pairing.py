"""Weight pairing: match the parameters of an encoder layer with those of nn.TransformerEncoderLayer.

Parameters are matched by name and shape. PyTorch's weights have the following roles here: query, key, value
(thirds of in_proj_weight), out_proj, linear1, linear2, norm1 and norm2, each with a weight and a bias.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations, product

import torch
from torch import Tensor, nn

ATTENTION = ("query", "key", "value", "out_proj")
ROLES = (*ATTENTION, "linear1", "linear2", "norm1", "norm2")
Weights = dict[str, Tensor]  # of the reference, by role: "query.weight", "norm2.bias", …

# The words of a parameter name, and the words that identify a role: to_q, w_qs, query_proj, linearQ, …
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
BESIDE = r"(?:to|w|in|lin|linear|fc|proj)?"
TELLING = {
    "query": re.compile(rf"{BESIDE}(q|qs|quer(y|ys|ies)){BESIDE}"),
    "key": re.compile(rf"{BESIDE}(k|ks|keys?){BESIDE}"),
    "value": re.compile(rf"{BESIDE}(v|vs|val|values?){BESIDE}"),
    "out_proj": re.compile(rf"{BESIDE}(o|os|out|output|concat|unify|unifyheads|combine|final){BESIDE}"),
}
EARLY = re.compile(r"att|slf|\bsa_|before|input|first|pre", re.IGNORECASE)
IS_BIAS = re.compile(r".*bias.*|beta|shift|b(_?\d+)?")


@dataclass(frozen=True)
class Pair:
    """A parameter of your layer, and the parameters of the reference that correspond to it.

    Attributes:
        name: name of your parameter.
        counterparts: names in the reference: one, such as "query.weight", or several if yours stacks them.
        transposed: whether yours has the shape (in, out).
        head: the head that it belongs to; None if it belongs to all heads.
        axes: order of the rows of a stacked parameter: part (p), head (h), feature (d), slowest first.
    """

    name: str
    counterparts: tuple[str, ...]
    transposed: bool = False
    head: int | None = None
    axes: str = "phd"

    def numbers(self, weights: Weights, n_heads: int) -> Tensor:
        """Return the values for your parameter."""
        whole = weights[self.counterparts[0]]
        if len(self.counterparts) > 1:
            parts = torch.stack([weights[name].unflatten(0, (n_heads, -1)) for name in self.counterparts])
            order = ["phd".index(axis) for axis in self.axes]
            whole = parts.movedim(order, [0, 1, 2]).flatten(0, 2)  # (part · head · feature, …)
        if self.head is not None:
            whole = whole.unflatten(0, (n_heads, -1))[self.head]
        return whole.mT if self.transposed else whole

    def __str__(self) -> str:
        head = "" if self.head is None else f", head {self.head}"
        return f"{self.name} ← {', '.join(self.counterparts)}{head}"


@dataclass
class Parameters:
    """The parameter names of a layer, grouped by shape; convolution axes of length 1 are ignored.

    Args:
        module: the layer.
        d_model, d_ff, n_heads: the sizes of the reference.
    """

    module: nn.Module
    d_model: int
    d_ff: int
    n_heads: int
    square: list[str] = field(default_factory=list)
    stacked: list[str] = field(default_factory=list)
    of_a_head: list[str] = field(default_factory=list)
    feed_forward: list[str] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        d, d_head = self.d_model, self.d_model // self.n_heads
        kinds = {(d, d): self.square, (d, 2 * d): self.stacked, (d, 3 * d): self.stacked}
        kinds |= {(d_head, d): self.of_a_head} if self.n_heads > 1 else {}
        kinds |= {tuple(sorted((d, self.d_ff))): self.feed_forward}
        for name, _ in self.module.named_parameters():
            shape = self.shape(name)
            kind = kinds.get(tuple(sorted(shape)), self.vectors if len(shape) < 2 else [])
            kind.append(name)

    def shape(self, name: str) -> list[int]:
        """Return the shape without axes of length 1, and with adjacent axes (n_heads, d_head) merged."""
        shape = [size for size in self.module.get_parameter(name).shape if size != 1]
        for i, pair in enumerate(pairwise(shape)):
            if pair == (self.n_heads, self.d_model // self.n_heads):
                return [*shape[:i], self.d_model, *shape[i + 2 :]]
        return shape

    def is_in_out(self, name: str) -> bool:
        """Return whether a matrix is a bare parameter, so that the formula is probably x @ W."""
        owner = self.module.get_submodule(name.rpartition(".")[0])
        return not isinstance(owner, nn.Linear | nn.Conv1d | nn.MultiheadAttention)

    def bias_of(self, name: str) -> str | None:
        """Return the name of the bias that belongs to a weight: weight → bias, W_q → b_q."""
        owner, _, last = name.rpartition(".")
        names = [last.replace("weight", "bias"), re.sub(r"^[wW]|kernel", "b", last), f"{last}_bias"]
        beside = [f"{owner}.{name}".lstrip(".") for name in names if name != last]
        return next((name for name in beside if name in self.vectors), None)


def pairings(
    module: nn.Module, d_model: int, d_ff: int, n_heads: int, roles: Mapping[str, str]
) -> Iterator[list[Pair]]:
    """Yield the possible pairings of a layer's parameters with the reference's, most likely first.

    Args:
        module: the layer.
        d_model, d_ff, n_heads: the sizes of the reference.
        roles: known pairs: a role → your parameter, or the module that contains it.

    Raises:
        ValueError: if a role or a name is unknown, two parameters have the same role, or d_ff = d_model.
    """
    if d_ff == d_model:
        raise ValueError(
            f"d_ff of the reference must differ from d_model, got {d_ff} for both: shapes would not "
            "distinguish the parameters; choose other sizes"
        )
    parameters = Parameters(module, d_model, d_ff, n_heads)
    for role, name in roles.items():
        if role not in ROLES or not any(_is_below(name, known) for known, _ in module.named_parameters()):
            raise ValueError(
                f"pairs must map one of {', '.join(ROLES)} to a parameter, got {role!r}: {name!r}"
            )
    stacked, in_out = bool(parameters.stacked), any(map(parameters.is_in_out, parameters.square))
    for attention, norms, axes, turned in product(
        _attention(parameters, roles),
        _norms(parameters, roles),
        ("phd", "hpd", "hdp", "pdh", "dhp", "dph") if stacked else ("phd",),
        (False, True) if in_out else (False,),
    ):
        pairs = [*attention, *_stacked(parameters, axes), *_feed_forward(parameters, roles)]
        if turned:
            flip = {name for name in parameters.square if parameters.is_in_out(name)}
            pairs = [
                replace(pair, transposed=not pair.transposed) if pair.name in flip else pair for pair in pairs
            ]
        yield [*(both for pair in pairs for both in _with_bias(parameters, pair)), *norms]


def _attention(parameters: Parameters, roles: Mapping[str, str]) -> Iterator[list[Pair]]:
    """Yield the pairs of attention matrices; without role names, in every order, registration order first."""
    known: dict[str, list[str]] = {}
    of_heads = [name for name in parameters.of_a_head if _role(name, roles) in ATTENTION]
    for name in [*parameters.square, *of_heads]:
        known.setdefault(_role(name, roles), []).append(name)
    unnamed = known.pop("", [])
    twice = {role: names for role, names in known.items() if len(names) > 1 and set(names) - set(of_heads)}
    _refuse_two(twice)
    stacked = {part.partition(".")[0] for pair in _stacked(parameters) for part in pair.counterparts}
    missing = [role for role in ATTENTION if role not in {*known, *stacked}]
    pairs = [
        Pair(
            name,
            (f"{role}.weight",),
            transposed=parameters.is_in_out(name),
            head=i if name in of_heads else None,
        )
        for role, names in known.items()
        for i, name in enumerate(names)
    ]
    orders = list(permutations(missing, min(len(missing), len(unnamed))))
    if len(unnamed) < len(missing):  # the last matrix is probably the output projection, whatever is missing
        orders.sort(key=lambda order: order[-1:] != ("out_proj",))
    for order in orders:
        yield pairs + [
            Pair(name, (f"{role}.weight",), transposed=parameters.is_in_out(name))
            for name, role in zip(unnamed, order, strict=False)
        ]


def _stacked(parameters: Parameters, axes: str = "phd") -> list[Pair]:
    """Return the pairs of stacked matrices (qkv, kv, …), in the order in their name, otherwise q, k, v."""
    pairs = []
    for name in parameters.stacked:
        letters = re.search(r"[qkv]{2,3}", name.lower())
        order = letters[0] if letters else "qkv"
        size = max(parameters.shape(name)) // parameters.d_model
        order = order if len(set(order)) == size else "qkv"[-size:]
        parts = tuple({"q": "query", "k": "key", "v": "value"}[letter] + ".weight" for letter in order)
        pairs.append(Pair(name, parts, transposed=parameters.is_in_out(name), axes=axes))
    return pairs


def _feed_forward(parameters: Parameters, roles: Mapping[str, str]) -> list[Pair]:
    """Return the pairs of the up projection and the down projection."""
    found: dict[str, list[str]] = {}
    in_out = False
    for i, name in enumerate(parameters.feed_forward):
        widens = parameters.shape(name)[0] == parameters.d_ff  # as (out, in)
        role = _told_role(name, roles)
        if not role and parameters.is_in_out(name):
            in_out = not widens if i == 0 else in_out  # the first matrix is the up projection
            widens ^= in_out
        found.setdefault(role or ("linear1" if widens else "linear2"), []).append(name)
    _refuse_two({role: names for role, names in found.items() if len(names) > 1})
    wanted = {"linear1": parameters.d_ff, "linear2": parameters.d_model}
    return [
        Pair(names[0], (f"{role}.weight",), transposed=parameters.shape(names[0])[0] != wanted[role])
        for role, names in found.items()
    ]


def _norms(parameters: Parameters, roles: Mapping[str, str]) -> Iterator[list[Pair]]:
    """Yield the pairs of norm parameters: vectors that are not biases of a matrix, grouped by module."""
    matrices = [
        *(parameters.square + parameters.stacked),
        *(parameters.of_a_head + parameters.feed_forward),
    ]
    biases = {parameters.bias_of(name) for name in matrices}
    with_matrix = {n.rpartition(".")[0] for n, p in parameters.module.named_parameters() if p.dim() > 1}
    groups: dict[str, list[str]] = {}
    for name in parameters.vectors:
        owner = name.rpartition(".")[0]
        is_a_norms = name not in biases and (owner not in with_matrix or name in roles.values())
        if is_a_norms and parameters.shape(name) in ([parameters.d_model], []):
            groups.setdefault(owner, []).append(name)
    told = {role: name for role, name in roles.items() if role.startswith("norm")}
    owners = [owner for owner in groups if not any(_is_below(name, owner) for name in told.values())]
    missing = [role for role in ("norm1", "norm2") if role not in told]
    known = [(role, owner) for role, name in told.items() for owner in groups if _is_below(name, owner)]
    owners.sort(key=_place)
    told_by_name = len({_place(owner) for owner in owners}) == len(owners)
    for order in [missing] if told_by_name else permutations(missing):
        chosen = [*known, *zip(order, owners, strict=False)]
        yield [
            Pair(
                name,
                (f"{role}.{'bias' if IS_BIAS.fullmatch(name.rpartition('.')[2]) else 'weight'}",),
            )
            for role, owner in chosen
            for name in groups[owner]
        ]


def _place(owner: str) -> tuple[bool, str]:
    """Return the sort key of a norm: names that suggest attention first, then by number."""
    numbers = re.findall(r"\d+", owner)
    return not EARLY.search(owner), numbers[-1] if numbers else ""


def _with_bias(parameters: Parameters, pair: Pair) -> Iterator[Pair]:
    yield pair
    if bias := parameters.bias_of(pair.name):
        counterparts = tuple(name.replace("weight", "bias") for name in pair.counterparts)
        yield Pair(bias, counterparts, head=pair.head, axes=pair.axes)


def _role(name: str, roles: Mapping[str, str]) -> str:
    """Return a parameter's role, as given or from the last word in its name with a role; otherwise ""."""
    if role := _told_role(name, roles):
        return role
    for word in reversed(WORD.findall(name)):
        for role, telling in TELLING.items():
            if telling.fullmatch(word.lower()):
                return role
    return ""


def _told_role(name: str, roles: Mapping[str, str]) -> str:
    return next((role for role, told in roles.items() if _is_below(told, name)), "")


def _is_below(name: str, parameter: str) -> bool:
    """Return whether a parameter has this name, or belongs to the module with this name."""
    return parameter == name or parameter.startswith(f"{name}.")


def _refuse_two(found: Mapping[str, list[str]]) -> None:
    for role, names in found.items():
        raise ValueError(
            f"expected one parameter for {role}, got {', '.join(names)}; pass one encoder layer without "
            f"cross-attention or gates, or name the right parameter: pairs={{{role!r}: {names[0]!r}}}"
        )


# --- the weights ----------------------------------------------------------------------------------


def weights_of(layer: nn.TransformerEncoderLayer) -> Weights:
    """Return the parameters of the reference by role; they share its storage."""
    attention = layer.self_attn
    modules = {"out_proj": attention.out_proj} | {role: getattr(layer, role) for role in ROLES[4:]}
    weights = {f"{role}.{kind}": p for role, part in modules.items() for kind, p in part.named_parameters()}
    for kind in ("weight", "bias"):
        stacked = getattr(attention, f"in_proj_{kind}")
        if stacked is not None:
            thirds = zip(ATTENTION, stacked.chunk(3), strict=False)
            weights |= {f"{role}.{kind}": third for role, third in thirds}
    return weights
