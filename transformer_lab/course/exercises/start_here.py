"""Exercises of lesson 00. The first one is easy on purpose: it shows how the checker speaks."""

from transformer_lab.course.checker import value_exercise

d_head = value_exercise(
    "00.1",
    "How wide is one head?",
    stub="d_head = ...",
    solution="d_head = 384 // 12",
    hints=[
        """The heads *share* the features of a query: each feature goes to exactly one head, and each head
        gets as many as the next.""",
        """Twelve heads, each `d_head` wide, have 384 features together. In Python `//` divides integers
        and gives an integer; `/` always gives a float.""",
    ],
)


@d_head.specification
def d_head():
    heads = [[] for _ in range(12)]
    for feature in range(384):
        heads[feature % 12].append(feature)
    return len(heads[0])


@d_head.alternative
def d_head():
    return int(384 / 12)


d_head.mistake(
    "a float",
    """The number is right, but `/` makes it the float 32.0, and a tensor cannot have 32.0 features:
    `torch.zeros(32.0)` is an error. Use `//`, which divides integers and gives an integer.""",
    384 / 12,
)

d_head.mistake(
    "multiplied",
    """You multiplied: twelve heads of 384 features each would need queries of 4,608 features, and they have
    only 384. The heads share them, so divide.""",
    384 * 12,
)

d_head.mistake(
    "divided the wrong way round",
    """You divided the heads among the features, so each feature gets a small part of a head. The question
    is how many features each head gets: swap the two numbers.""",
    12 / 384,
)

d_head.mistake(
    "the remainder",
    """`384 % 12` is what is left over when 384 is divided by 12: nothing, so the heads come out equal. (The
    wrong way round, `12 // 384`, gives 0 too.) How many features each head gets is the quotient: `//`.""",
    384 % 12,
)

d_head.mistake(
    "the full width",
    """384 is `d_model`, the width of a token's vector, and of its query as well: 384 new features, made out
    of all the old ones. The 12 heads share those of the query, and `d_head` is one head's share.
    Divide.""",
    384,
)

d_head.mistake(
    "the number of heads",
    """12 is how many heads there are, `n_heads`. The question is how many of a query's 384 features each
    of them gets.""",
    12,
)

d_head.mistake(
    "divided by the layers",
    """64 is 384 divided by the 6 layers. But layers work one after the other, each at the full width; it is
    the 12 heads of a layer that share the features. (The paper's base model does have heads of 64: 512
    features for 8 heads.)""",
    384 // 6,
    384 / 6,
)

d_head.mistake(
    "all the heads of all the layers",
    """72 is the number of heads in all 6 layers. But layers work one after the other, each at the full
    width; only the 12 heads of one layer share the features. Divide by 12.""",
    384 / 72,
    384 // 72,
)
