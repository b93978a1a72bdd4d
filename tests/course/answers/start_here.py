"""Lesson 00: independent and alternative answers to its exercises."""

from tests.course.answers import alternative, independent


@independent("00.1")
def independent_d_head():
    heads = [[] for _ in range(12)]
    for feature in range(384):
        heads[feature % 12].append(feature)
    return len(heads[0])


@alternative("00.1")
def other_d_head():
    return int(384 / 12)
