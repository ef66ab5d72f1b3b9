"""Schedules that extend others: what they say, and the steps that they have."""

import pytest

import tilegen
from tilegen.errors import Source, SourceError
from tilegen.frontend import data_folder, parse
from tilegen.frontend.unparse import text_of_schedule

BASE = """
kernel twice(A: f32[N]) -> B: f32[N]:
    B[i] = 2 * A[i]

schedule plain for twice(T=128 in {64, 128}, W=4):
    tile(i, T) -> b, t
    tile(t, W) -> t, v
    order(b, t, v)
    bind(b, block.x)
    bind(t, thread.x)
"""
PLAIN = ["tile(i, T) -> b, t", "tile(t, W) -> t, v", "order(b, t, v)", "bind(b, block.x)", "bind(t, thread.x)"]


def parse_extension(text, name="wide"):
    return next(s for s in parse(Source("extends.tg", BASE + text)).schedules if s.name == name)


def steps(lines, head="schedule wide extends plain:"):
    """The texts of the steps of a schedule that extends `plain` by `lines`."""
    return [call.text for call in parse_extension(f"{head}\n    {lines}\n").steps]


def test_all_steps_are_inherited():
    assert steps("pass") == PLAIN


def test_a_step_of_the_same_word_and_first_argument_is_replaced_where_it_stands():
    assert steps("order(b, v, t)") == [*PLAIN[:2], "order(b, v, t)", *PLAIN[3:]]


def test_another_step_stands_at_the_end():
    assert steps("order(v, t)\n    unroll(v)") == [*PLAIN, "order(v, t)", "unroll(v)"]


def test_steps_are_inserted_before_and_after_others_in_their_order():
    found = steps("before bind(b):\n        unroll(v)\n        stream(A)\n    after bind(b):\n        resident(b, 2)")
    assert found == [*PLAIN[:3], "unroll(v)", "stream(A)", PLAIN[3], "resident(b, 2)", PLAIN[4]]


def test_a_step_in_a_block_replaces_none():
    assert steps("after bind(t):\n        bind(t, thread.y)") == [*PLAIN, "bind(t, thread.y)"]


def test_a_step_is_replaced_by_others():
    found = steps("instead of order(b, t):\n        order(v, b, t)\n        unroll(v)")
    assert found == [*PLAIN[:2], "order(v, b, t)", "unroll(v)", *PLAIN[3:]]


def test_a_step_is_dropped():
    assert steps("without order(b)") == [*PLAIN[:2], *PLAIN[3:]]


def test_a_change_can_name_a_step_that_the_extension_has_itself():
    assert steps("unroll(v)\n    before unroll(v):\n        stream(A)")[-2:] == ["stream(A)", "unroll(v)"]


def test_parameters_are_inherited_and_get_new_defaults():
    found = parse_extension("schedule wide extends plain(T=64, U=2):\n    tile(v, U) -> v, u\n").parameters
    assert [(p.name, p.default, p.candidates) for p in found] == [("T", 64, (64, 128)), ("W", 4, ()), ("U", 2, ())]


def test_a_new_default_that_is_no_candidate_of_the_base_has_no_candidates():
    (first, _) = parse_extension("schedule wide extends plain(T=32):\n    pass\n").parameters
    assert (first.default, first.candidates) == (32, ())


def test_a_parameter_of_which_no_step_speaks_any_more_is_not_inherited():
    found = parse_extension("schedule wide extends plain:\n    without tile(t)\n    order(b, t)\n")
    assert [p.name for p in found.parameters] == ["T"]


def test_an_extension_is_extended_wherever_it_stands():
    text = """
schedule wider extends wide:
    bind(t, thread.y)

schedule wide extends plain(W=8):
    unroll(v)
"""
    found = parse_extension(text, "wider")
    assert [call.text for call in found.steps] == [*PLAIN[:4], "bind(t, thread.y)", "unroll(v)"]
    assert [call.schedule for call in found.steps] == ["plain"] * 4 + ["wider", "wide"]
    assert [p.default for p in found.parameters] == [128, 8]
    assert found.kernel == "twice"


def test_steps_keep_the_places_of_their_lines():
    found = parse_extension("schedule wide extends plain:\n    unroll(v)\n")
    assert [call.span.line for call in found.steps] == [6, 7, 8, 9, 10, 12]


def test_a_stock_schedule_is_extended_with_its_composite_steps():
    module = parse(Source("mine.tg", "schedule mine extends conv2d.patches(TF=32):\n    pipeline(co, 2)\n"))
    (mine,) = module.schedules
    stock = parse(Source("conv2d.tg", (data_folder("schedules") / "conv2d.tg").read_text()))
    patches = next(s for s in stock.schedules if s.name == "patches")
    assert [*mine.steps[:-1]] == [*patches.steps[:-1]]
    assert mine.steps[-1].text == "pipeline(co, 2)"
    assert mine.kernel == "conv2d"
    assert module.kernels.keys() == stock.kernels.keys()
    assert "STAGES" not in [p.name for p in mine.parameters]
    assert {d.word for d in module.defines} == {d.word for d in stock.defines}


def test_a_stock_schedule_for_several_kernels_is_extended_for_all_of_them():
    module = parse(Source("mine.tg", "schedule mine extends gemm_transposed.tiled:\n    pass\n"))
    assert [s.kernel for s in module.schedules] == list(module.kernels) == ["gemm_nn", "gemm_nt", "gemm_tn", "gemm_tt"]


def test_chains_are_limited():
    chain = "".join(f"schedule s{n} extends s{n + 1}:\n    pass\n" for n in range(2000))
    with pytest.raises(SourceError, match="more than 100 schedules"):
        parse_extension(chain + "schedule s2000 extends plain:\n    pass\n", "s0")


SEVERAL = """
kernel thrice(A: f32[N]) -> B: f32[N]:
    B[i] = 3 * A[i]

schedule both for twice, thrice(T=128):
    tile(i, T) -> b, t

schedule threads extends both:
    bind(t, thread.x)
"""


def test_a_schedule_for_several_kernels_is_one_for_each():
    found = [s for s in parse(Source("several.tg", BASE + SEVERAL)).schedules if s.name == "both"]
    assert [(s.kernel, s.kernels) for s in found] == [("twice", ("twice", "thrice")), ("thrice", ("twice", "thrice"))]
    assert found[0].steps == found[1].steps


def test_an_extension_is_for_the_kernels_of_its_base_unless_it_says_others():
    module = parse(Source("several.tg", BASE + SEVERAL + "\nschedule one for thrice extends both:\n    pass\n"))
    assert [s.kernel for s in module.schedules if s.name == "threads"] == ["twice", "thrice"]
    assert [s.kernel for s in module.schedules if s.name == "one"] == ["thrice"]


@pytest.mark.parametrize("name", ["gemm", "conv2d", "gemm_bias_gelu", "gemm_split", "nbody", "transpose"])
def test_the_text_of_a_schedule_is_one_of_the_same_steps(name):
    module = parse(Source(f"{name}.tg", (data_folder("schedules") / f"{name}.tg").read_text()))
    for schedule in module.schedules:
        (again,) = parse(Source("flat.tg", f"{text_of_schedule(schedule)}\n")).schedules
        assert (again, again.kernels) == (schedule, schedule.kernels)


def test_schedules_of_another_file_of_the_folder_are_extended(tmp_path):
    """Its kernel and its composite steps come with it; what is known of the old text is not taken for the new one."""
    base = tmp_path / "base.tg"
    base.write_text(
        "define rows(loop) -> b, t:\n    tile(loop, 64) -> b, t\n    bind(b, block.x)\n    bind(t, thread.x)\n\n"
        "kernel mine(x: f32[M]) -> y: f32[M]:\n    y[i] = x[i] + 1\n\n"
        "schedule plain for mine():\n    rows(i) -> b, t\n"
    )
    (tmp_path / "more.tg").write_text("schedule better extends base.plain:\n    cache_register(x, at=t)\n")
    (tmp_path / "most.tg").write_text("schedule best extends more.better:\n    without cache_register(x)\n")

    def words(file, schedule):
        return [stage.step.word for stage in tilegen.load(tmp_path / file).schedule(schedule).stages[1:]]

    assert words("more.tg", "better") == ["tile", "bind", "bind", "cache_register"]
    assert words("most.tg", "best") == ["tile", "bind", "bind"]
    scheduled = tilegen.load(tmp_path / "more.tg").schedule("better")
    assert tilegen.load(scheduled.to_text()).schedule("better").tree == scheduled.tree
    base.write_text(base.read_text().replace("bind(t, thread.x)", "unroll(t)"))
    assert words("more.tg", "better") == ["tile", "bind", "unroll", "cache_register"]
    base.unlink()
    with pytest.raises(SourceError, match=r"there is no schedule 'base\.plain' to extend"):
        tilegen.load(tmp_path / "more.tg")


def test_of_a_stock_schedule_for_several_kernels_a_text_with_one_has_that():
    kernel = "kernel hgemm_f16(A: f16[M, K], B: f16[K, N]) -> C: f16[M, N]:\n    C[i, j] = A[i, 0] * B[0, j]\n"
    module = parse(Source("mine.tg", f"{kernel}\nschedule mine extends hgemm.overlapped\n"))
    assert [s.kernel for s in module.schedules] == ["hgemm_f16"]
    module = parse(Source("mine.tg", "schedule mine extends hgemm.overlapped\n"))
    assert [s.kernel for s in module.schedules] == ["hgemm"]


COPIES = """
kernel plain(X: f32[N]) -> Y: f32[N]:
    Y[i] = X[i]

kernel short(X: f16[N]) -> Y: f16[N]:
    Y[i] = X[i]

kernel other(A: i8[N]) -> B: i8[N]:
    B[n] = A[n]
"""
TYPED = f"""{COPIES}
schedule s for plain, short(IN=X.type, T=64):
    tile(i, T) -> b, t
    tensorize(t, by=move_{{IN}})

schedule mine for other extends s
"""


@pytest.mark.parametrize(
    ("kernel", "schedule", "word"), [("plain", "s", "f32"), ("short", "s", "f16"), ("other", "mine", "i8")]
)
def test_a_parameter_may_be_the_type_of_a_tensor_of_the_kernel(kernel, schedule, word):
    file = tilegen.api.from_text(TYPED)
    with pytest.raises(SourceError, match=f"there is no instruction 'move_{word}'"):
        file.kernel(kernel).schedule(schedule)
    with pytest.raises(SourceError, match="there is no instruction 'move_bf16'"):
        file.kernel(kernel).schedule(schedule, IN="bf16")
    assert "(IN=X.type, T=64)" in file.self_contained("s", "short")


COMPUTED = f"""{COPIES}
schedule s for plain, short(V=16 / X.bytes, U=2, T=(U + 1)*V) where T <= 48:
    tile(i, T) -> b, t

schedule mine for other extends s(U=1)

schedule wide for plain extends s(V=8)

schedule more for plain extends s(W=3, U=W - 1)
"""


@pytest.mark.parametrize(
    ("kernel", "schedule", "values"),
    [
        ("plain", "s", (4, 2, 12)),
        ("short", "s", (8, 2, 24)),
        ("other", "mine", (16, 1, 32)),
        ("plain", "wide", (8, 2, 24)),
        ("plain", "more", (4, 2, 12, 3)),
    ],
)
def test_a_parameter_may_follow_from_others_and_from_the_bytes_of_an_element(kernel, schedule, values):
    file = tilegen.api.from_text(COMPUTED)

    def values_of(**given):
        return file.kernel(kernel).schedule(schedule, **given).core.parameters

    assert tuple(values_of().values()) == values
    assert values == tuple(p.default for p in file.find_schedule(schedule, kernel).parameters)
    assert values_of(V=2, U=5)["T"] == 12
    assert values_of(T=7) == values_of() | {"T": 7}
    again = tilegen.api.from_text(file.self_contained(schedule, kernel)).kernel(kernel).schedule(schedule)
    assert again.core.parameters == values_of()


def test_a_fact_of_a_computed_parameter_is_asked_for_each_kernel():
    with pytest.raises(SourceError, match="the defaults are not so: T=48"):
        tilegen.api.from_text(COMPUTED.replace("T <= 48", "T <= 24").replace("(U=1)", ""))
