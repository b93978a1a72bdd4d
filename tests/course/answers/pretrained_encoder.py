"""Lesson 09: independent and alternative answers to its exercises."""

import math

import torch
from torch.nn import functional as F

from tests.course.answers import alternative, independent
from transformer_course.exercises.pretrained_encoder import PARTS, layer_state


@independent("09.1")
def independent_encoder_state(published, n_layers):
    words = published["embeddings.word_embeddings.weight"].clone()
    places = published["embeddings.position_embeddings.weight"].clone()
    first_text = published["embeddings.token_type_embeddings.weight"][0]
    for place in range(len(places)):
        for feature in range(len(first_text)):
            places[place, feature] += first_text[feature]
    result = {"embedding.weight": words, "positions.weight": places}
    for kind in ("weight", "bias"):
        result[f"embedding_norm.{kind}"] = published[f"embeddings.LayerNorm.{kind}"]
    for layer in range(n_layers):
        for theirs, ours in PARTS.items():
            for kind in ("weight", "bias"):
                name = f"encoder.layer.{layer}.{theirs}.{kind}"
                result[f"layers.{layer}.{ours}.{kind}"] = published[name]
    return result


@alternative("09.1")
def other_encoder_state(published, n_layers):
    state = {}
    for theirs, ours in [("word_embeddings", "embedding"), ("position_embeddings", "positions")]:
        state[f"{ours}.weight"] = published[f"embeddings.{theirs}.weight"].clone()
    state["embedding.weight"] += published["embeddings.token_type_embeddings.weight"][:1]  # as good there
    for name, tensor in published.items():
        if name.startswith("embeddings.LayerNorm"):
            state[name.replace("embeddings.LayerNorm", "embedding_norm")] = tensor
    for layer in reversed(range(n_layers)):
        for name, tensor in layer_state(published, layer).items():
            state[f"layers.{layer}.{name}"] = tensor
    return state


@independent("09.2")
def independent_sentence_vector(hidden, may_attend):
    batch, longest, d_model = hidden.shape
    result = torch.zeros(batch, d_model)
    for b in range(batch):
        real = [place for place in range(longest) if may_attend[b, 0, 0, place]]
        mean = [sum(hidden[b, place, i] for place in real) / len(real) for i in range(d_model)]
        length = sum(number**2 for number in mean) ** 0.5
        result[b] = torch.stack([number / length for number in mean])
    return result


@alternative("09.2")
def other_sentence_vector(hidden, may_attend):
    sums = torch.einsum("bpd,bp->bd", hidden, may_attend.flatten(1).to(hidden.dtype))
    return F.normalize(sums, dim=-1)  # a sum points where the mean does


@independent("09.3")
def independent_search(query, vectors, k):
    cosines = []
    for vector in vectors:
        dot = sum(q * v for q, v in zip(query, vector, strict=True))
        cosines.append(dot / (sum(q * q for q in query) * sum(v * v for v in vector)) ** 0.5)
    places = sorted(range(len(cosines)), key=lambda place: -cosines[place])[:k]
    return torch.tensor(places), torch.stack([cosines[place] for place in places])


@alternative("09.3")
def other_search(query, vectors, k):
    cosines = F.cosine_similarity(vectors, query[None], dim=-1)
    places = cosines.argsort(descending=True)[:k]
    return places, cosines[places]


def normed_by_hand(numbers, weight, bias):
    mean = sum(numbers) / len(numbers)
    root = (sum((number - mean) ** 2 for number in numbers) / len(numbers) + 1e-12) ** 0.5
    return torch.stack([(n - mean) / root * w + b for n, w, b in zip(numbers, weight, bias, strict=True)])


@independent("09.4")
def independent_published_layer(tensors, number, x, may_attend, n_heads):
    def of(part):
        return [tensors[f"encoder.layer.{number}.{part}.{kind}"] for kind in ("weight", "bias")]

    def mapped(part, token):
        weight, bias = of(part)
        return torch.stack([(row * token).sum() + b for row, b in zip(weight, bias, strict=True)])

    batch, length, d_model = x.shape
    d_head = d_model // n_heads
    result = torch.zeros_like(x)
    for b in range(batch):
        q, k, v = ([mapped(f"attention.self.{p}", t) for t in x[b]] for p in ("query", "key", "value"))
        real = [j for j in range(length) if may_attend[b, 0, 0, j]]
        for i in range(length):
            mixed = torch.zeros(d_model)
            for h in range(n_heads):
                cut = slice(h * d_head, (h + 1) * d_head)
                scores = [(q[i][cut] * k[j][cut]).sum() / d_head**0.5 for j in real]
                grown = [(score - max(scores)).exp() for score in scores]
                for j, each in zip(real, grown, strict=True):
                    mixed[cut] += each / sum(grown) * v[j][cut]
            heard = x[b, i] + mapped("attention.output.dense", mixed)
            heard = normed_by_hand(heard, *of("attention.output.LayerNorm"))
            bent = [n / 2 * (1 + (n / 2**0.5).erf()) for n in mapped("intermediate.dense", heard)]
            thought = heard + mapped("output.dense", torch.stack(bent))
            result[b, i] = normed_by_hand(thought, *of("output.LayerNorm"))
    return result


@alternative("09.4")
def other_published_layer(tensors, number, x, may_attend, n_heads):
    own = {name.removeprefix(f"encoder.layer.{number}."): tensor for name, tensor in tensors.items()}

    def linear(part, x):
        return x @ own[f"{part}.weight"].T + own[f"{part}.bias"]

    def norm(part, x):
        centred = x - x.mean(-1, keepdim=True)
        spread = (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt()
        return centred / spread * own[f"{part}.weight"] + own[f"{part}.bias"]

    q, k, v = (linear(f"attention.self.{part}", x).chunk(n_heads, -1) for part in ("query", "key", "value"))
    heads = []
    for head in range(n_heads):
        scores = q[head] @ k[head].mT / q[head].shape[-1] ** 0.5
        heads.append(scores.masked_fill(~may_attend[:, 0], -math.inf).softmax(-1) @ v[head])
    heard = linear("attention.output.dense", torch.cat(heads, -1))
    heard = norm("attention.output.LayerNorm", x + heard)
    wide = linear("intermediate.dense", heard)
    bent = wide * (1 + torch.erf(wide / math.sqrt(2))) / 2
    return norm("output.LayerNorm", heard + linear("output.dense", bent))


@independent("09.5")
def independent_layer_state(published, layer):
    result = {}
    for theirs, ours in PARTS.items():
        for kind in ("weight", "bias"):
            result[f"{ours}.{kind}"] = published[f"encoder.layer.{layer}.{theirs}.{kind}"]
    return result


@alternative("09.5")
def other_layer_state(published, layer):
    state = {}
    for name, tensor in published.items():
        if name.startswith(f"encoder.layer.{layer}."):
            part, _, kind = name.removeprefix(f"encoder.layer.{layer}.").rpartition(".")
            state[f"{PARTS[part]}.{kind}"] = tensor
    return state


@independent("09.6")
def independent_previous_score(weights):
    n_heads, n, _ = weights.shape
    result = torch.zeros(n_heads)
    for head in range(n_heads):
        for i in range(1, n - 1):
            result[head] += weights[head, i, i - 1] / (n - 2)
    return result


@alternative("09.6")
def other_previous_score(weights):
    words = torch.arange(1, weights.shape[-1] - 1)
    return weights[:, words, words - 1].mean(-1)


@independent("09.7")
def independent_head_damages(attention, x):
    full, weights = attention(x)
    values, projection = attention.inner.value_projection(x), attention.output_projection
    d_head = x.shape[-1] // attention.n_heads
    result = torch.zeros(attention.n_heads)
    for without in range(attention.n_heads):
        for i in range(len(x)):
            output = projection.bias.clone()
            for column in range(x.shape[-1]):
                if column // d_head != without:
                    mixed = (weights[column // d_head, i] * values[:, column]).sum()
                    output = output + mixed * projection.weight[:, column]
            cosine = (output * full[i]).sum() / (output.square().sum() * full[i].square().sum()) ** 0.5
            result[without] += (1 - cosine) / len(x)
    return result


@alternative("09.7")
def other_head_damages(attention, x):
    mixed = []
    listener = attention.output_projection.register_forward_pre_hook(lambda _, given: mixed.append(given[0]))
    full, _ = attention(x)
    listener.remove()
    heads = mixed[0].reshape(len(x), -1).chunk(attention.n_heads, dim=-1)
    pieces = attention.output_projection.weight.chunk(attention.n_heads, dim=1)
    added = torch.stack([head @ piece.T for head, piece in zip(heads, pieces, strict=True)])
    return 1 - F.cosine_similarity(full - added, full[None], dim=-1).mean(-1)


@independent("09.8")
def independent_rank_correlation(x, y):
    n = len(x)
    ranks = [[sum(bool(other < one) for other in values) for one in values] for values in (x, y)]
    squares = sum((a - b) ** 2 for a, b in zip(*ranks, strict=True))
    return 1 - 6 * squares / (n * (n * n - 1))


@alternative("09.8")
def other_rank_correlation(x, y):
    ranks = [(values[:, None] > values).sum(1) for values in (x, y)]
    n = len(x)
    return 1 - 6 * (ranks[0] - ranks[1]).float().square().sum() / (n**3 - n)
