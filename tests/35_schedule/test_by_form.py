"""Schedules by form: a stock schedule serves a kernel that computes the same under other names."""

import re

import pytest

from tests.support.cover import each_stock_schedule
from tilegen import api
from tilegen import schedule as scheduling
from tilegen.cli import run
from tilegen.errors import SourceError, TilegenError
from tilegen.ir.comparison.form import find_names
from tilegen.ir.printing.show import show

MM = """kernel mm(X: f32[T, D], W: f32[D, F]) -> Y: f32[T, F]:
    Y[t, f] = sum[d](X[t, d] * W[d, f])
"""
SOFTMAX = """kernel soft(U: f32[B, D]) -> V: f32[B, D]:
    var big: f32[B], all: f32[B]
    big[b] = max[d](U[b, d])
    all[t] = sum[i](exp(U[t, i] - big[t]))
    V[j, c] = exp(U[j, c] - big[j]) * (1.0 / all[j])
"""


def kernel(text):
    return api.from_text(text, cache=False).kernel().ir


def names(text, stock="gemm"):
    found = find_names(api.load(stock).kernel().ir, kernel(text))
    return found if isinstance(found, str) else found.text


def test_names_are_found_from_what_is_computed():
    assert names(MM) == "M = T, K = D, N = F; i = t, j = f, k = d; A = X, B = W, C = Y"


@pytest.mark.parametrize(
    "other",
    [
        MM.replace("X[t, d] * W[d, f]", "W[d, f] * X[t, d]"),
        MM.replace("f32[D, F]", "f32[F, D] col_major").replace("W[d, f]", "W[f, d]"),
        MM.replace("f32[T, D]", "bf16[T, D]").replace("X[t, d] *", "f32(X[t, d]) *"),
        MM.replace("T", "512"),
    ],
    ids=["order", "storage", "types", "sizes"],
)
def test_what_is_no_part_of_the_form(other):
    assert "i = t, j = f, k = d; A = X, B = W, C = Y" in names(other)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (MM.replace("sum", "max"), "'C' of gemm is a sum, 'Y' of mm is a max"),
        (MM.replace("X[t, d] *", "X[t, d] +"), "'Y' of mm is not 'C' of gemm under other names"),
        (MM.replace("f32[D, F]", "f32[F, D]").replace("W[d, f]", "W[f, d]"), "'Y' of mm is not 'C' of gemm under"),
        (MM.replace("Y[t", "var P: f32[T, F]\n    P[t") + "    Y[t, f] = P[t, f]\n", "gemm has 1 equation, mm has 2"),
        (MM.replace("[T, D]", "[T, E, D]").replace("[d]", "[e, d]").replace("X[t", "X[t, e"), "has 2 + 1 loops"),
    ],
)
def test_what_differs_is_said(other, why):
    assert why in names(other)


def test_up_to_and_from_on_are_two_forms():
    up, down = ("kernel k(X: f32[N]) -> Y: f32[N]:\n    Y[i] = sum[k " + way + " i](X[k])\n" for way in ("<=", ">="))
    assert isinstance(find_names(kernel(up), kernel(down)), str)


@each_stock_schedule
def test_stock_schedules_serve_other_names(name, schedule):
    """The tree has the steps of the stock schedule, one for one; that they are legal is asked of some."""
    file = api.load(name, cache=False)
    for known in (s for s in file.schedules if s.name == schedule):
        constants = {n: 1 for n, value in file.kernels[known.kernel].constants.items() if value is None}
        text = _renamed(file, known.kernel, constants)
        text += f"\nschedule mine for {known.kernel}q extends {name}.{schedule}\n"
        other = api.from_text(text, cache=False)
        mine = other.find_schedule("mine")
        assert mine.form.startswith(f"{name}.{schedule} with ")
        trees = [_final_tree(f, s, constants) for f, s in ((file, known), (other, mine))]
        assert trees[0] == trees[1]


def _final_tree(file, schedule, constants):
    """The last tree as a text, without the letter that tells names apart; a vector's loop is `lane` beside a `v`."""
    of = file.kernel(schedule.kernel, **constants).ir
    core = scheduling.apply(of, schedule, {}, file.defines, file.instructions, accepted=True)
    return show(core.tree).replace("q", "").replace(".lane", ".v")


def _renamed(file, name, constants):
    """The kernel with a letter after each of its names."""
    ir = file.kernel(name, **constants).ir
    words = {r.index for e in ir.equations for r in (*e.loops, *e.reduced)} | {name, *ir.sizes}
    words |= {t.name.split(".")[0] for t in ir.tensors} | {s.name for s in ir.scalars}
    text = re.sub(r"\n    beside .*(\n       .*)*", "", file.kernel_alone(name))
    return re.sub(r"(?<!\w)(?<!(?<!\.)\.)[A-Za-z_]\w*", lambda word: word[0] + "q" * (word[0] in words), text)


def test_steps_of_ones_own_are_in_the_names_of_the_kernel():
    file = api.from_text(f"{MM}\nschedule mine for mm extends gemm.across(TM=64):\n    cache_shared(W, at=ko)\n")
    steps = [step.text for step in file.find_schedule("mine").steps]
    assert "tile(t, TM) -> bi, ti" in steps
    assert "cache_shared(X, at=ko, layout=[d, t])" in steps
    assert "cache_shared(W, at=ko)" in steps
    assert file.kernel("mm").schedule("mine").prove().verdict == "proved"
    assert "Y" in api.from_text(file.self_contained("mine"), cache=False).kernel("mm").schedule("mine").source()


def test_a_schedule_of_the_text_serves_by_form_too():
    text = f"{MM}\n{MM.replace('mm', 'other').replace('t,', 'u,').replace('[X', '[Z')}"
    text += "\nschedule one for mm(T=8):\n    tile(t, T) -> b, c\n    bind(b, block.x)\n"
    file = api.from_text(text + "schedule two for other extends one\n")
    assert [step.text for step in file.find_schedule("two").steps] == ["tile(u, T) -> b, c", "bind(b, block.x)"]


def test_what_is_taken_gets_a_number():
    text = MM.replace("X", "bi").replace("W", "TM").replace("t,", "ko,")
    mine = api.from_text(f"{text}\nschedule mine for mm extends gemm.across\n", cache=False).find_schedule("mine")
    assert {"bi is called bi2", "TM is called TM2", "ko is called ko2"} <= set(mine.form.split("; "))
    assert mine.parameters[0].name == "TM2"
    assert any("TM2" in fact.names() and "TM2 %" in fact.text for fact in mine.facts)


def test_loops_of_several_equations_may_have_names_of_their_own():
    """Of m.i and s.i, whose parts have m.i2 and s.i2, one is b here, and the other t: those of parts have no number."""
    text = f"{SOFTMAX}\nschedule mine for soft extends rows.softmax_parts\n"
    mine = api.from_text(text, cache=False).kernel("soft").schedule("mine")
    assert mine.prove().verdict == "proved"


def test_one_kernel_at_a_time():
    two = f"{MM}\n{MM.replace('mm', 'nn')}"
    with pytest.raises(SourceError, match="serves one of these kernels at a time") as caught:
        api.from_text(f"{two}\nschedule mine for mm, nn extends gemm.across\n")
    assert "'mm' has other names: M = T" in caught.value.notes[0]


def test_a_step_that_fails_says_what_differs():
    file = api.from_text(f"{MM.replace('sum', 'max')}\nschedule mine for mm extends gemm.across\n")
    with pytest.raises(TilegenError) as caught:
        file.schedule("mine")
    assert "'gemm.across' is for another kernel: 'C' of gemm is a sum, 'Y' of mm is a max" in caught.value.notes


def test_commands_take_stock_schedules_by_form(tmp_path, cli):
    (tmp_path / "mm.tg").write_text(MM)
    shown = cli(["show", f"{tmp_path}/mm.tg", "--schedule", "gemm.registers"]).out
    assert shown.startswith(
        "by form: gemm.registers with M = T, K = D, N = F; i = t, j = f, k = d; A = X, B = W, C = Y\n"
    )
    flat = cli(["show", f"{tmp_path}/mm.tg", "--schedule", "gemm.registers", "--flat"]).out
    assert flat.startswith("# By form: gemm.registers with M = T")
    assert "schedule gemm_registers for mm(" in flat
    assert run(["check", f"{tmp_path}/mm.tg", "--schedule", "gemm.tiled", "--size", "T=9", "D=8", "F=7"]) == 0
    assert (
        "there is no schedule 'gemm.acros' to extend"
        in cli(["show", f"{tmp_path}/mm.tg", "--schedule", "gemm.acros"], 1).err
    )


def test_of_several_kernels_the_one_that_fits_gives_the_names():
    linear = """kernel linear(X: bf16[T, D], W: bf16[F, D]) -> Y: bf16[T, F]:
    var S: f32[T, F]
    S[t, f] = sum[d](f32(X[t, d]) * f32(W[f, d]))
    Y[t, f] = bf16(S[t, f])

schedule mine for linear extends hgemm.persistent
"""
    assert api.from_text(linear, cache=False).find_schedule("mine").form.startswith("hgemm.persistent with ")
