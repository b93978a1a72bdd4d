"""Following a cure to the letter: its code goes into the wrong answer, wherever it may be meant to go."""

import ast
import re
from collections.abc import Iterator
from contextlib import suppress

SIGNS = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "//": ast.FloorDiv, "@": ast.MatMult}
SIGNS |= {"**": ast.Pow, "&": ast.BitAnd, "|": ast.BitOr, "%": ast.Mod}
COMPARISONS = {"<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq}
BLANK = "__"  # what a suffix such as `.mT` hangs on
FIRST = 150  # of the texts with one piece that a second one is put into
Places = list[tuple[ast.AST, str, int | None, ast.AST]]  # a parent, its field, the place there, the node


def pieces(cure: str) -> list[str]:
    """The code of a cure, piece by piece."""
    return re.findall(r"`([^`]+)`", cure)


def followed(wrong: str, right: str, cure: str) -> Iterator[str]:
    """Each text that one arrives at who puts one piece of the cure into the wrong answer, or two.

    A learner knows where: at what differs from the right answer, in it or around it.
    """
    once: dict[str, None] = {}
    for piece in pieces(cure):
        for text in _put(wrong, right, piece):
            once[text] = None
            yield text
    if len(pieces(cure)) > 1:
        for text in list(once)[:FIRST]:
            for piece in pieces(cure):
                yield from _put(text, right, piece)


def _put(wrong: str, right: str, piece: str) -> Iterator[str]:
    """The wrong answer with one piece of code at one place, or at all of them."""
    tree = ast.parse(wrong)
    places = _differing(tree, ast.parse(right))
    for replace in _ways(piece):
        everywhere = []
        for parent, field, i, node in places:
            with suppress(AttributeError, TypeError, ValueError):  # it does not fit here
                if new := replace(node):
                    everywhere.append((parent, field, i, node, new))
        for change in everywhere:
            yield from _unparsed(tree, [change])
        if 1 < len(everywhere) < 5:
            yield from _unparsed(tree, everywhere)


def _unparsed(tree: ast.AST, changes: list[tuple]) -> Iterator[str]:
    for parent, field, i, _, new in changes:
        _set(parent, field, i, new)
    with suppress(AttributeError, TypeError, ValueError, SyntaxError):
        ast.parse(text := ast.unparse(tree))
        yield text
    for parent, field, i, node, _ in reversed(changes):
        _set(parent, field, i, node)


def _set(parent: ast.AST, field: str, i: int | None, new: ast.AST) -> None:
    if i is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[i] = new


def _differing(wrong: ast.AST, right: ast.AST) -> Places:
    """What differs, all that is in it, and all that is around it."""
    pairs = []
    for (field, ours), (_, theirs) in zip(ast.iter_fields(wrong), ast.iter_fields(right), strict=False):
        ours, theirs = (each if isinstance(each, list) else [each] for each in (ours, theirs))
        if type(wrong) is not type(right) or len(ours) != len(theirs):
            return _all_in(wrong)
        is_list = isinstance(getattr(wrong, field), list)
        pairs += [
            (field, i if is_list else None, one, other)
            for i, (one, other) in enumerate(zip(ours, theirs, strict=True))
            if _dump(one) != _dump(other)
        ]
    if any(not isinstance(node, ast.AST) for *_, one, other in pairs for node in (one, other)):
        return _all_in(wrong)
    return [
        place for field, i, one, other in pairs for place in [(wrong, field, i, one), *_differing(one, other)]
    ]


def _all_in(tree: ast.AST) -> Places:
    found = []
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            nodes = enumerate(value) if isinstance(value, list) else [(None, value)]
            found += [(parent, field, i, node) for i, node in nodes if isinstance(node, ast.AST)]
    return found


def _dump(node) -> str:
    return ast.dump(node) if isinstance(node, ast.AST) else repr(node)


def _ways(piece: str) -> Iterator:
    """The ways to put a piece of code in a node's place: of the node, false where it does not fit."""
    if piece in SIGNS:
        yield lambda node: isinstance(node, ast.BinOp) and ast.BinOp(node.left, SIGNS[piece](), node.right)
    if piece in COMPARISONS:
        yield (
            lambda node: (
                isinstance(node, ast.Compare)
                and ast.Compare(node.left, [COMPARISONS[piece]()], node.comparators)
            )
        )
    if piece == "~":
        yield lambda node: isinstance(node, ast.expr) and ast.UnaryOp(ast.Invert(), node)
    with suppress(SyntaxError):
        yield from _keywords(ast.parse(f"f({piece})", mode="eval").body.keywords)
    for code in (piece, BLANK + piece, f"{BLANK}.{piece}", f"{BLANK} {piece}"):
        with suppress(SyntaxError):
            statements = ast.parse(code).body
            if len(statements) == 1 and isinstance(statements[0], ast.Expr):
                yield from _expression(statements[0].value)
                if code is piece and isinstance(statements[0].value, ast.Call):
                    yield from _statements(statements)  # `model.train()`
            elif code is piece:
                yield from _statements(statements)


def _expression(new: ast.expr) -> Iterator:
    if BLANK in {name.id for name in ast.walk(new) if isinstance(name, ast.Name)}:
        yield lambda node: isinstance(node, ast.expr) and _filled(new, node)
        yield lambda node: _filled(new, node.func.value)  # another method of the same thing
        yield lambda node: _filled(new, node.left)
        yield lambda node: _filled(new, node.value)
        return
    yield lambda node: isinstance(node, ast.expr) and new
    yield lambda node: ast.Call(new, node.args, node.keywords)  # another function
    for sign in (ast.Div, ast.Mult, ast.Add, ast.Sub, ast.BitAnd, ast.MatMult):
        yield lambda node, sign=sign: isinstance(node, ast.expr) and ast.BinOp(node, sign(), new)
        yield lambda node, sign=sign: isinstance(node, ast.BinOp) and ast.BinOp(node.left, sign(), new)
    if isinstance(new, ast.Call):
        yield (
            lambda node: (
                isinstance(node, ast.expr) and ast.Call(new.func, [node, *new.args[1:]], new.keywords)
            )
        )
    if isinstance(new, ast.Name | ast.Attribute):
        yield lambda node: isinstance(node, ast.expr) and ast.Call(new, [node], [])


def _filled(suffix: ast.expr, node: ast.expr) -> ast.expr:
    class Fill(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            return node if name.id == BLANK else name

    return Fill().visit(ast.parse(ast.unparse(suffix), mode="eval").body)


def _keywords(keywords: list[ast.keyword]) -> Iterator:
    """In a call, in place of those of the same name; or taken out of it."""
    names, code = {each.arg for each in keywords}, {ast.unparse(each) for each in keywords}

    def others(node: ast.Call) -> list[ast.keyword]:
        return [each for each in node.keywords if each.arg not in names]

    if keywords:
        yield lambda node: ast.Call(node.func, node.args, [*others(node), *keywords])
        yield (
            lambda node: (
                code & {ast.unparse(each) for each in node.keywords}
                and ast.Call(node.func, node.args, others(node))
            )
        )


def _statements(new: list[ast.stmt]) -> Iterator:
    """In a statement's place, before it, or behind it."""
    for around in (lambda node: new, lambda node: [*new, node], lambda node: [node, *new]):
        yield (
            lambda node, around=around: (
                isinstance(node, ast.stmt) and ast.If(ast.Constant(True), around(node), [])
            )
        )


def is_code(piece: str) -> bool:
    """Whether a piece is to be put in as it stands: more than a name or a sign, and nothing left open."""
    if "…" in piece or re.fullmatch(r"[\w.]+|\W+", piece):
        return False
    return bool(list(_ways(piece)))
