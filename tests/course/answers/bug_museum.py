"""Lesson 14: independent and alternative answers to its exercises."""

import math
from contextlib import suppress

import torch
import torch.nn.functional as F

from tests.course.answers import alternative
from transformer_lab import diagnostics
from transformer_lab.rotary_embedding import RotaryEmbedding, rotate_interleaved


@alternative("14.1")
def other_keeps_01(turn):
    x = torch.randn(2, 4, 4, 6)
    return torch.allclose(turn(x)[:, 0], x[:, 0])


@alternative("14.1")
def other_keeps_01_2(turn):  # all numbers
    x = torch.randn(2, 7, 3, 6)
    wanted = RotaryEmbedding(6, rotate=rotate_interleaved)(x.transpose(1, 2)).transpose(1, 2)
    return torch.allclose(turn(x), wanted)


@alternative("14.2")
def other_keeps_02(stack):
    return len({id(parameter) for unit in stack.units for parameter in unit.parameters()}) == 4 * 5


@alternative("14.2")
def other_keeps_02_2(stack):  # one step of training
    x = torch.randn(3, *stack.units[0][0].normalized_shape)
    stack(x).square().sum().backward()
    torch.optim.SGD(stack.parameters(), 0.1).step()
    return not stack.units[0][1].weight.equal(stack.units[1][1].weight)


@alternative("14.3")
def other_keeps_03(answer):
    def whole(x):
        return answer(x)[:, None]

    return diagnostics.batch_invariance(whole, torch.randn(3, 4, 16)).holds


@alternative("14.3")
def other_keeps_03_2(answer):  # by its argument's name
    x = torch.randn(3, 20, 16)
    return answer.eval()(x)[1:2].allclose(answer(x=x[1:2]))


@alternative("14.4")
def other_keeps_04(attend):
    return (diagnostics.leak_map(attend, torch.randn(2, 6, 8)).triu(1) < 1e-9).all()


@alternative("14.4")
def other_keeps_04_2(attend):  # by gradients
    x = torch.randn(2, 5, 8, requires_grad=True)
    attend(x)[:, 1].sum().backward()
    return (x.grad[:, 2:] == 0).all()


@alternative("14.5")
def other_keeps_05(
    scores_of_the_last,
):  # the earlier tokens in another order: not only the scores' order changes
    tokens = torch.randn(6, 8)
    other = tokens[[1, 0, 2, 3, 4, 5]]
    return not torch.allclose(scores_of_the_last(tokens)[:2].flip(0), scores_of_the_last(other)[:2])


@alternative("14.5")
def other_keeps_05_2(scores_of_the_last):  # all numbers
    tokens = torch.randn(6, 8)
    turned = RotaryEmbedding(8)(tokens)
    return torch.allclose(scores_of_the_last(tokens), turned @ turned[-1])


@alternative("14.6")
def other_keeps_06(norm):
    x = 10 * torch.randn(3, 5)
    return torch.allclose(norm(x), F.layer_norm(x, (5,)), atol=1e-3)


@alternative("14.10")
def other_keeps_10(attend):
    x = torch.randn(2, 4, 16)
    results = attend(x)
    return isinstance(results, tuple) and torch.allclose(results[1].sum(-1), torch.ones(2, 4))


@alternative("14.10")
def other_keeps_10_2(attend):  # in another dtype
    _, w = attend.float()(torch.randn(3, 5, 16).float())
    return w.shape == (3, 5, 5)


@alternative("14.12")
def other_keeps_12(attend):  # a head is the same by itself as among others
    q, k, v = torch.randn(3, 2, 4, 5, 7)
    return torch.allclose(attend(q, k, v)[:, :1], attend(q[:, :1], k[:, :1], v[:, :1]))


@alternative("14.15")
def other_keeps_15(weigh):  # the real tokens are the same with padding as without
    x, ids = torch.randn(1, 5, 8), torch.tensor([[5, 8, 2, 0, 0]])
    return torch.allclose(weigh(x, ids)[:, :3, :3], weigh(x[:, :3], ids[:, :3]))


@alternative("14.16")
def other_keeps_16(turns):
    tables = [turns(4096, 8, dtype) for dtype in (torch.float32, torch.float16, torch.bfloat16)]
    return all((table.diff(dim=0) != 0).any(dim=-1).all() for table in tables)


@alternative("14.17")
def other_keeps_17(turning):
    formats = (torch.float32, torch.float16)
    return all(turning.to(dtype)(torch.ones(3, 8, dtype=dtype)).dtype == dtype for dtype in formats)


@alternative("14.17")
def other_keeps_17_2(turning):  # without values
    turning.to("meta")
    return turning(torch.randn(5, 8, device="meta")).is_meta


@alternative("14.18")
def other_keeps_18(build):
    build(16, attn_heads=8)
    with suppress(Exception):
        build(16, drop_out=0.1)
        return False
    return True


@alternative("14.18")
def other_keeps_18_2(build):
    def refuses(**options):
        try:
            build(16, **options)
        except Exception:
            return True
        return False

    takes = not refuses(attn_heads=8, dropout=0.1) and refuses(attn_heads=5)  # 16 features, 5 heads
    return takes and refuses(attn_head=8)


@alternative("14.19")
def other_keeps_19(text_vectors):
    x, real = torch.randn(2, 5, 8), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    other = torch.where(real[..., None], x, x + 1)
    return torch.allclose(text_vectors(x, real), text_vectors(other, real))


@alternative("14.19")
def other_keeps_19_2(text_vectors):
    x, real = torch.randn(2, 5, 8), torch.arange(5)[None] < 3
    padded = text_vectors(x, real.expand(2, 5))
    same = torch.allclose(padded, text_vectors(x[:, :3], real[:, :3].expand(2, 3)))
    return same and torch.allclose(padded.norm(dim=-1), torch.ones(2))


@alternative("14.19")
def other_keeps_19_3(text_vectors):
    x, real = torch.randn(1, 5, 8), torch.arange(5)[None] < 3
    return text_vectors(x, real).allclose(text_vectors(x.masked_fill(~real[..., None], math.nan), real))
