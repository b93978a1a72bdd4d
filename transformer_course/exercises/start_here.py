"""Exercises of lesson 00. The first one is easy on purpose: it shows how the checker speaks."""

from transformer_course.checker import value_exercise

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
