"""Random kernels whose texts are easily read wrong: where ranges begin, what is defined, and how often.

A share of them has no meaning, at some sizes at least: they read outside of a tensor, or where nothing has been
defined, or define an element twice. tilegen has to refuse these, and tests/support/meaning to accept the others.
"""

from __future__ import annotations


def ranges_kernel(pick) -> str:
    families = [
        _window,
        _moving_ranges,
        _without_terms,
        _inside_expressions,
        _shifts,
        _partial,
        _partial,
        _overlaps,
        _guards,
        _large,
        _large_indices,
        _integer_types,
        _gathers,
    ]
    return pick(families)(pick)


def _head(inputs, shape, var="") -> str:
    head = f"kernel random({', '.join(f'{name}: i32[{s}]' for name, s in inputs.items())}) -> out: i32[{shape}]:\n"
    return head + (f"    var {var}\n" if var else "")


def _else(pick, read, chance=3) -> str:
    """A read, in most cases with a fallback: a number, another element, or more than that."""
    first = f"{read.partition('[')[0]}[0{', j' if ', j]' in read else ''}]"
    other = pick([0, 0, 0, 1, -2, 7, first, "i", f"{first} * 2 - i", f"{read.replace('i', 'i - 1', 1)} else 5"])
    return pick([f"({read} else {other})"] * chance + [read])


def _condition(pick, conditions) -> str:
    condition = pick(conditions).replace(" and ", pick([" and ", ", "]))
    return f" for {condition}" if condition else ""


def _ends(pick, word, low, high) -> str:
    """`low <= word < high`, in one of the ways in which a reduction's brackets say so."""
    return pick([
        f"{word} in {low}..{high}", f"{word} in {low}..{high}",
        f"{low} <= {word} < {high}", f"{low} - 1 < {word}, {word} < {high}", f"{low} <= {word} and {word} < {high}",
    ])  # fmt: skip


# -- where a range begins


def _window(pick) -> str:
    """A reduction over a neighbourhood that begins before, at or after each element."""
    low, high = pick([("-1", "2"), ("-2", "1"), ("-3", "-1"), ("1", "3"), ("-1", "1"), ("-P", "P + 1"), ("0 - P", "2")])
    span = _ends(pick, "r", low, high)
    word = pick(["sum", "sum", "sum", "max", "min", "argmax", "argmin"])
    place = pick(["i + r", "i + r", "i - r", "2*i + r", "i + r + 1"])
    inputs = {"X": "2*N + 1" if "2*i" in place else pick(["N", "N", "N + 1"])} | ({"W": "P"} if "P" in low else {})
    read = _else(pick, f"X[{place}]", 5)
    term = pick([f"{read}", f"{read} * 2 - X[i]", f"{read} - r"])
    if "P" in low and pick([True, False]):
        inputs["W"] = pick(["2*P + 1", "2*P + 2", "P + 2"])
        term = f"({term}) * W[r + P]"
    two = pick([False, False, True])
    if two:
        inputs |= {"V": "N, 3"}
        span, term = pick([f"{span}, s", f"s, {span}"]), f"({term}) + V[i, s]"
        word = pick(["sum", "max", "argmax", "argmin"])
    condition = _condition(pick, ["", "", "", "i + r >= 0", "i >= 1", "i < N - 1 and i >= 1"])
    return _head(inputs, "N") + f"    out[i] = {word}[{span}]({term}){condition}\n"


def _moving_ranges(pick) -> str:
    """A range of a reduction that moves with an index of the left side."""
    low, high = pick([
        ("i - 2", "i"), ("i - 2", "i + 1"), ("i - P", "i + 1"), ("i", "i + 2"), ("i + 1", "N"), ("0", "i"), ("i", "N"),
        ("N - i - 1", "N"), ("i - 1", "N - i"), ("-i", "i + 1"), ("2*i", "2*i + 2"), ("i/2", "i"),
    ])  # fmt: skip
    extent = "2*N" if "2*i" in low else "N"
    read = _else(pick, "X[j]", 2)
    term = pick([read, f"{read} * Y[i]", f"{read} - i", f"{read} + j"])
    inputs = {"X": extent} | ({"Y": "N"} if "Y" in term else {}) | ({"W": "P"} if "P" in low else {})
    condition = _condition(pick, ["", "", "", "i >= 2", "i >= 1", "i < N - 1", "j >= 0", "j < N and j >= 0"])
    word = pick(["sum", "sum", "max", "min", "argmax", "argmin"])
    return _head(inputs, "N") + f"    out[i] = {word}[j in {low}..{high}]({term}){condition}\n"


def _without_terms(pick) -> str:
    """Conditions on terms from which an attribute takes the reduced index, or which hold for no term of an element."""
    condition = pick([
        "(i + S*k) % 2 == 1", "(i + S*k) % 2 == 1", "S*k >= i", "S*k <= i", "S*k + i == 3", "S*k >= 1", "S*k < 2",
        "k < 2 and i >= 1", "k >= i and i < 2", "k > i", "S*k + i < 4 and i >= 1",
    ])  # fmt: skip
    word = pick(["sum", "prod", "max", "min"] + ([] if "==" in condition else ["argmax", "argmin"]))
    place = pick(["brackets", "brackets", "brackets", "behind", "both"])
    first = "k" if "==" in condition else pick(["k", "k < M"])
    span = "k" if place == "behind" else f"{first}, {condition}"
    left = pick(["", "", "i >= 1", "i < 2"])
    behind = " and ".join([condition] * (place != "brackets") + [left] * bool(left))
    term = pick(["X[k]", "X[k] * Y[i]", "(X[k + i - 1] else 7) + X[k]", "Z[i, k]", "Z[i, k] - i"])
    inputs = {"X": "M", "Y": "N"} | ({"Z": "N, M"} if "Z" in term else {})
    head = _head(inputs, "N").replace(") ->", f", S: int = {pick([0, 1, 2, 2, 3, -1])}) ->", 1)
    return head + f"    out[i] = {word}[{span}]({term}){f' for {behind}' if behind else ''}\n"


def _inside_expressions(pick) -> str:
    """Reductions inside of expressions: of the element's index or of none, two of them, one inside of another."""
    inner = pick(["sum[l](X[l])", "max[l < M](X[l] * Y[i])", "sum[l, l >= i](X[l])", "min[l in 0..2](X[l] else 9)"])
    first = pick([
        inner, "sum[k](Z[i, k] * X[k])", "prod[k < 2](Z[i, k] else 3)", "max[k](X[k] - Y[i])", "sum[k](X[k] else 0)",
        f"sum[k](Z[i, k] - {inner.replace('Y[i]', 'X[k]').replace('>= i', '>= k')})",
    ])  # fmt: skip
    text = pick([
        f"{first} * 2", f"{first} // 3 + Y[i]", f"Y[i] - {first} + {inner}", f"({first} if i > 1 else Y[i])",
        f"max({first}, {inner})", f"-{first}",
    ])  # fmt: skip
    condition = _condition(pick, ["", "", "i >= 1", "i < 3"])
    return _head({"X": "M", "Y": "N", "Z": "N, M"}, "N") + f"    out[i] = {text}{condition}\n"


# -- which elements are defined


def _shifts(pick) -> str:
    """A target whose index is shifted, turned round or cut, with a condition that fits or does not."""
    target = pick(["i + 1", "i + 2", "i - 1", "N - 1 - i", "N - i", "i", "2*i", "2*i + 1"])
    read = pick(["X[i]", "X[i]", "X[i + 1]", "X[i - 1]", "X[N - 1 - i]", "X[2*i]"])
    read = _else(pick, read, 1)
    shape = pick(["N", "N", "N + 1", "N + 2", "2*N"])
    inputs = {"X": pick(["N", "N", "N + 1", "2*N"])}
    anywhere = target != "i" and read != "X[i]"  # no dimension says how far the index runs
    conditions = [
        "i < N",
        "i + 1 < N",
        "i < N - 1",
        "1 <= i < N",
        "-1 <= i < N - 1",
        "0 <= i < N",
        "i + 2 < N",
        "i < 3",
    ]
    condition = _condition(pick, conditions + ([] if anywhere else ["", "", "", "i >= 1"]))
    if pick([True, False, False]):
        text = f"    out[{target}] = sum[j]({read} * Y[j]){condition}\n"
        return _head(inputs | {"Y": "M"}, shape) + text
    if pick([True, False, False]):
        inputs = {"X": f"{inputs['X']}, M"}
        read = read.replace("]", ", j]")
        return _head(inputs, f"{shape}, M") + f"    out[{target}, j] = {read}{condition}\n"
    return _head(inputs, shape) + f"    out[{target}] = {read} + i{condition}\n"


def _partial(pick) -> str:
    """An intermediate tensor that is defined in part, and read in full or in part."""
    write = pick(["", "i < 5", "i < 3", "i >= 1", "i < N - 1", "1 <= i < N - 1", "i < M", "i % 2 == 0"])
    cond = pick(["", "", write, write, "i < 2", "i >= 1", "i >= 2", "1 <= i < N - 1", "i + 1 < N"])
    read = pick(["t[i]", "t[i]", "t[i - 1]", "t[i + 1]", "t[N - 1 - i]", "t[i/2]"])
    read = _else(pick, read, 1)
    made = pick(["X[i]", "X[i] * 2", "sum[k](X[k] * Z[i, k])"])
    inputs = {"X": "N"} | ({"Z": "N, N"} if "Z" in made else {})
    lines = [f"    t[i] = {made}{f' for {write}' if write else ''}"]
    if "M" in write:
        inputs["Y"] = "M"
        read += " + 0*Y[0]"
    match pick(["each", "each", "each", "reduced", "window"]):
        case "each":
            lines += [f"    out[i] = {read} + X[i]{f' for {cond}' if cond else ''}"]
        case "reduced":
            span = pick(["k", "k in 1..N", "k in 1..N - 1", "k <= i", "k < 2", "k in 0..2", "k in i..N"])
            lines += [f"    out[i] = sum[{span}](t[k] * X[i]){f' for {cond}' if cond else ''}"]
        case "window":
            lines += [f"    out[i] = sum[r in -1..2](t[i + r] else 0){f' for {cond}' if cond else ''}"]
    return _head(inputs, "N", "t: i32[N]") + "\n".join(lines) + "\n"


def _overlaps(pick) -> str:
    """A target whose index may be the same at two points."""
    target, shape, read, inputs = pick([
        ("i/2", "N", "X[i]", {"X": "N"}),
        ("i % 3", "3", "X[i]", {"X": "N"}),
        ("i + j", "N + M", "X[i] * Y[j]", {"X": "N", "Y": "M"}),
        ("i + j", "N + M", "X[i] * Y[j]", {"X": "N", "Y": "M"}),
        ("i - j", "N", "X[i] + Y[j]", {"X": "N", "Y": "M"}),
        ("2*i + j", "2*N", "X[i, j]", {"X": "N, 2"}),
        ("2*i + j", "2*N + 1", "X[i, j]", {"X": "N, 3"}),
        ("3*i + j", "3*N", "X[i, j]", {"X": "N, 3"}),
        ("4*i + j", "4*N", "X[i, j]", {"X": "N, 3"}),
        ("i/2, i % 2", "N, 2", "X[i]", {"X": "N"}),
        ("i/2, j", "N, M", "X[i, j]", {"X": "N, M"}),
        ("i, i % 2", "N, 2", "X[i]", {"X": "N"}),
        ("i + j, j", "N + M, M", "X[i, j]", {"X": "N, M"}),
        ("i + j, i - j", "N + M, N", "X[i, j]", {"X": "N, M"}),
        ("2*i + 3*j", "2*N + 3*M", "X[i] - Y[j]", {"X": "N", "Y": "M"}),
    ])  # fmt: skip
    if "j" in target and len(inputs) == 2 and pick([True, False, False]):
        read, inputs = read.replace("Y[j]", "j"), {"X": "N"}
        condition = _condition(pick, ["j < 2", "0 <= j < 2", "-1 <= j <= 0", "j < 1", "j < i", "0 <= j <= i"])
    else:
        condition = _condition(
            pick, ["", "", "", "i % 2 == 0", "i < 3", "i >= 1", "j <= i" if "j" in target else "i < 2"]
        )
    return _head(inputs, shape) + f"    out[{target}] = {read}{condition}\n"


# -- reads that something keeps inside


def _guards(pick) -> str:
    """A choice or a fallback around reads that may go outside."""
    near = pick(["X[i - 1]", "X[i + 1]", "X[i - 2]", "X[2*i]", "X[i - P]", "t[i - 1]", "t[i + 1]"])
    test = pick(["i > 0", "i >= 1", "i < N - 1", "i >= 2", "i >= P", "2*i < N", "0 < i", "i != 0", "not i == 0",
                 "i > 0 and X[i] > 0", "i > 0 or X[i] > 0", "X[i] > 0", "i > 0 and i < N - 1"])  # fmt: skip
    other = pick(["0", "X[i]", "X[0]", "i", "-1"])
    value = pick([f"{near} if {test} else {other}", f"{other} if {test} else {near}", f"({near} else 7) + X[i]"])
    inputs = {"X": pick(["N", "N", "N + 1"])} | ({"W": "P"} if "P" in value else {})
    lines = [f"    out[i] = {value}{_condition(pick, ['', '', '', 'i >= 1', 'i < 4'])}"]
    if "t[" in near:
        lines = [f"    t[i] = X[i] * 2{_condition(pick, ['', '', 'i >= 1', 'i < 3'])}", *lines]
    return _head(inputs, "N", "t: i32[N]" if "t[" in near else "") + "\n".join(lines) + "\n"


def _gathers(pick) -> str:
    """Reads of inputs at indices that data decide, that are clamped or go round."""
    inside = [
        "(E[T[i]] else 0)", "(E[T[i] + i] else -5)", "(E[T[i]] else E[0])", "(E[2*T[i] - 1] else T[i])",
        "(E[i * i] else 7)", "(E[T[i] & 3] else 1)", "(E[T[i] if T[i] > 0 else i] else 2)", "E[clamp(T[i], 0, M - 1)]",
        "E[clamp(T[i] + i, 0, M - 1)]", "E[T[i] % M]", "E[(T[i] - i) % M]", "E[i % M]", "T[clamp(i - 1, 0, N - 1)]",
        "T[(i + 1) % N]", "T[(i - 3) % N]", "T[i - 1 if i > 0 else N - 1]",
    ]  # fmt: skip
    reads = [*inside, "E[T[i]]", "E[clamp(T[i], 0, M)]", "T[(i + 1) % M]"]
    read = pick(reads)
    if pick([True, False]):
        read = f"{read} {pick('+-*')} {pick(inside)}"
    if "(" in read and pick([True, False, False]):
        read = read.replace("T[i", "T[k") if pick([True, False]) else read
        return _head({"E": "M", "T": "N", "Y": "N"}, "N") + f"    out[i] = {pick(['sum', 'max'])}[k]({read} + Y[k])\n"
    if pick([True, False, False]):
        lines = f"    t[i] = T[i] * 2\n    out[i] = t[i] + {read}\n"
        return _head({"E": "M", "T": "N"}, "N", "t: i32[N]") + lines
    condition = _condition(pick, ["", "", "i < M", "i >= 1"])
    return _head({"E": "M", "T": "N"}, "N") + f"    out[i] = {read}{condition}\n"


# -- large constants


def _large(pick) -> str:
    """Large factors and offsets of indices, and large numbers."""
    factor, offset = pick([1, 1, 7, 100, 1000]), pick([0, 1, 999, 4096, -1, -1000])
    place = f"{factor}*i {'-' if offset < 0 else '+'} {abs(offset)}"
    extent = f"{factor}*N + {max(offset, 0)}"
    reach = pick(["", "", " + 500*r", " - 300*r"])
    read = f"X[{place}{reach}]"
    read = f"({read} else {pick([0, 100000000, -2147483648, 2147483647])})" if offset < 0 or reach else read
    term = pick([
        read, f"min({read}, 5)", f"X[i] * 500000000 if {read} < 3 else 2147483647", f"i32({read} > -2147483648)",
        f"max({read} // 1000000007, -2147483647)", f"{read} % 1000003", f"{read} // 65536 * 3",
    ])  # fmt: skip
    if reach:
        return _head({"X": extent}, "N") + f"    out[i] = {pick(['max', 'min', 'argmax'])}[r < 3]({term})\n"
    target = pick(["i", "i", "50*i + 3", "N - 1 - i"])
    condition = "" if target == "i" else " for i < N"
    return _head({"X": extent}, "50*N" if "50" in target else "N") + f"    out[{target}] = {term}{condition}\n"


def _large_indices(pick) -> str:
    """Indices as numbers: exact as long as they are affine, and wrapped where another operation begins."""
    out, factor = pick(["i32", "i32", "i64"]), pick([1, 7, 65537, 1000000007, 2147483647, 3000000000])
    offset = pick([0, 5, 2147483647, 4000000000])
    index = pick([f"(i * {factor} + {offset})", f"(i * {factor} - {offset})", f"({offset} - i // 2 * {factor})"])
    plain = index + pick(["", "", " // 3", " % 7"])
    text = pick([
        plain, f"{plain} + X[i]", f"max({plain}, 5)", f"min({plain}, X[i])", f"abs({plain})", f"{plain} >> 3",
        f"X[i] ^ {plain}", f"({plain} & 65535) + {plain}", f"({plain} + X[i]) // 3", f"i * i * {factor} // 5",
        f"(i * {index}) % 11", f"{plain} if {plain} > {offset} else X[i]", f"(X[i] if {plain} < 7 else {plain}) // 2",
        f"~{plain} // 2", f"(1 << i % 8) * {plain}", f"(-{plain}) // 7",
    ])  # fmt: skip
    return f"kernel random(X: {out}[N]) -> out: {out}[N]:\n    out[i] = {text}\n"


def _integer_types(pick) -> str:
    """Bits, floors and remainders of integers of all types, which wrap."""
    one, two, out = (pick(["i32", "i32", "u8", "i8", "i64"]) for _ in range(3))
    top = {"u8": 255, "i8": 127, "i32": 2147483647, "i64": 9223372036854775807}
    x, y = f"{out}(X[i])", f"{out}(Y[i])"
    if pick([True, False]):  # the operation in the type of an input, and then a cast
        x, y, wide = "X[i]", f"{one}(Y[i])", one
    else:
        wide = out
    text = pick([x, y, f"{wide}(i)"])
    for _ in range(pick([1, 2, 3])):
        other = pick([x, y, str(pick([0, 1, 2, 3, 100, top[wide]]))])
        text = pick([
            *(f"({text} {word} {other})" for word in ("&", "|", "^", "+", "-", "*")), f"~{text}", f"-{text}",
            f"({text} << {pick([0, 1, 3, 7, y])})", f"({text} >> {pick([0, 1, 2, 7, y])})",
            f"({text} // {pick([1, 2, 3, 100])})", f"({text} % {pick([1, 2, 7])})", f"min({text}, {x})",
            f"({text} if {text} > {other} else {x})", f"{wide}({pick([*top])}({text}))",
        ])  # fmt: skip
    text = text if wide == out else f"{out}({text})"
    head = f"kernel random(X: {one}[N], Y: {two}[N]) -> out: {out}[{pick(['N', 'N', 'N + 1'])}]:\n"
    if out == "i32" and pick([True, False, False]):
        return head.replace("[N]", "[N, M]").replace("[N + 1]", "[N, M]") + (
            f"    out[i, j] = sum[k]({text.replace('[i]', '[i, j]')} + 0*k) for j <= i\n".replace(
                "sum[k]", "sum[k < 2]"
            )
        )
    return head + f"    out[i] = {text} for i < N\n"
