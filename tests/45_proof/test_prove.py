"""The proof of lowered programs: every stock schedule has one, and each kind of fault is refused with a witness."""

from dataclasses import replace

import pytest

from tests.support.cover import each_stock_schedule_long_or_nightly, each_stock_schedule_short_or_long
from tests.support.stock import schedule_stock
from tilegen.errors import ProofError
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Access, Condition, Const, Load, Stmt
from tilegen.ir.parts.swizzle import Swizzle
from tilegen.ir.walk import rewrite, walk
from tilegen.lowering import lower
from tilegen.lowering.launch.claims import Claim
from tilegen.lowering.launch.grid import Product
from tilegen.lowering.launch.program import Declare, Flag, For, If, Let, VectorCopy, VectorLoad
from tilegen.lowering.launch.timelines import COPIES, Arrive, Barrier
from tilegen.poly import Refused
from tilegen.proof import demand, prove
from tilegen.proof.limits import check_limits


def proof_of(name, schedule, change=None, *, vector=True, position=-1):
    """The proof of a stock schedule whose launch at `position` has gone through `change`."""
    tree = schedule_stock(name, schedule).tree
    launches = list(lower(tree, vector=vector))
    if change is not None:
        changed = change(launches[position])
        assert changed != launches[position], "the fault changes nothing"
        launches[position] = changed
    return prove(tree.kernel, tuple(launches), tree.reassociated)


def violation_of(name, schedule, change, obligation, **options):
    """The sentence and witness of the obligation that a faulty launch does not meet."""
    proof = proof_of(name, schedule, change, **options)
    assert proof.violation is not None, proof.verdict
    assert proof.violation.name == obligation, proof.violation
    found = proof.violation.violation
    return f"{found.sentence} | {found.witness}"


def in_body(change):
    return lambda launch: replace(launch, body=rewrite(launch.body, change))


def nth(kind, number, change):
    """`change` for the value number `number` of a kind, in program order."""

    def change_one(launch):
        seen = [v for v in walk(launch.body) if isinstance(v, kind)]
        return in_body(lambda v: change(v) if v is seen[number] else v)(launch)

    return change_one


def loops_with_vectors(tree):
    return tuple(loop for launch in lower(tree) for loop in launch.needs)


def check_proved_without(tree, loops):
    """The version that has no vectors in these loops."""
    proof = prove(tree.kernel, lower(tree, scalarized=frozenset(loops)), tree.reassociated)
    assert proof.violation is None, proof.violation
    assert proof.verdict == "proved"
    assert {o.name for o in proof.obligations} >= {"coverage", "order", "values", "bounds", "races", "barriers"}


@each_stock_schedule_short_or_long
def test_every_stock_schedule_is_proved_with_vectors_and_without(name, schedule):
    tree = schedule_stock(name, schedule).tree
    for loops in dict.fromkeys([(), loops_with_vectors(tree)]):
        check_proved_without(tree, loops)


@each_stock_schedule_long_or_nightly
def test_every_stock_schedule_is_proved_with_vectors_in_all_loops_but_one(name, schedule):
    tree = schedule_stock(name, schedule).tree
    loops = loops_with_vectors(tree)
    for loop in loops if len(loops) > 1 else ():
        check_proved_without(tree, [loop])


# -- 1: each instance exactly once


def test_a_guard_that_is_gone():
    gone = nth(If, -1, lambda node: node.body)
    assert "does not have" in violation_of("vector_add", "plain", gone, "coverage")


def test_a_loop_that_is_too_short():
    short = nth(For, 0, lambda loop: replace(loop, extent=loop.extent - 1))
    assert violation_of("gemm", "naive", short, "coverage").startswith(
        "an instance of 'C' never runs | C(i=0, j=0, k=0)"
    )


def test_a_loop_that_is_too_long():
    long = nth(For, 0, lambda loop: replace(loop, extent=loop.extent + 1))
    assert "C(i=0, j=0, k=1) runs" in violation_of("gemm", "naive", long, "coverage")


def test_a_statement_that_is_there_twice():
    twice = nth(Stmt, -1, lambda stmt: (stmt, stmt))
    assert "runs more than once" in violation_of("vector_add", "plain", twice, "coverage")


def with_full_test(change):
    """Changes the test that has a name, there and where it is asked."""

    def changed(launch):
        (flag,) = [v for v in walk(launch.body) if isinstance(v, Flag)]
        new = change(flag.test)

        def one(v):
            if isinstance(v, If) and v.flag:
                return replace(v, test=(*new, *(c for c in v.test if c not in flag.test)))
            return replace(v, test=new) if v is flag else v

        return in_body(one)(launch)

    return changed


def test_a_wrong_test_for_full_tiles():
    early = with_full_test(lambda test: tuple(Condition(c.value + 1) for c in test))
    assert "(M=127, K=4, N=128)" in violation_of("gemm", "registers", early, "coverage")


def test_a_full_version_that_forgets_a_test_of_another_size():
    one = with_full_test(lambda test: test[:1])
    assert "(M=128, K=4, N=4)" in violation_of("gemm", "registers", one, "coverage")


def test_a_name_of_a_test_that_another_list_makes():
    here = in_body(lambda v: () if isinstance(v, Flag) else v)
    assert "the test 'full_tile' is used where it has not been made" in violation_of("gemm", "pipelined", here, "text")


# -- 2: order


def test_loops_that_run_backwards():
    def backwards(loop):
        back = {loop.name: loop.extent - 1 - var(loop.name)}
        return replace(loop, body=rewrite(loop.body, lambda v: v.substitute(back) if isinstance(v, Affine) else v))

    found = violation_of("gemm", "naive", nth(For, 0, backwards), "order")
    assert "must run before" in found


# -- 3: values


def test_a_wrong_index_into_shared_memory():
    def wrong(load):
        return replace(load, index=(load.index[1], load.index[0]))

    def change(launch):
        load = next(v for v in walk(launch.body) if isinstance(v, Load) and v.buffer == "A.shared")
        return in_body(lambda v: wrong(v) if v is load else v)(launch)

    assert "'A.shared' is read where nothing has been written" in violation_of("gemm", "tiled", change, "values")


def test_a_copy_that_is_gone():
    def change(launch):
        return in_body(lambda v: () if isinstance(v, Stmt) and v.name == "B.shared" else v)(launch)

    assert "B.shared" in violation_of("gemm", "tiled", change, "barriers")


def start_with(**other):
    """A fault in what declarations start with."""
    return in_body(lambda v: replace(v, **other) if isinstance(v, Declare) and v.start is not None else v)


@pytest.mark.parametrize("schedule", ["tiled", "registers"])
def test_a_start_that_is_gone(schedule):
    gone = start_with(start=None, origin=None)
    assert "'C.init' never runs" in violation_of("gemm", schedule, gone, "coverage")


def test_a_start_with_another_value():
    assert "does not compute" in violation_of("gemm", "tiled", start_with(start=Const(1.0, "f32")), "values")


def test_an_array_that_starts_with_another_value():
    one = start_with(start=Const(1.0, "f32"))
    assert "'C.reg' does not start as it is declared" in violation_of("gemm", "registers", one, "text")


def test_a_register_that_two_iterations_share():
    def change(launch):
        def same(value):
            if isinstance(value, Access | Load) and value.buffer == "A.shared.reg":
                return replace(value, index=(const(0),))
            return value

        return in_body(same)(launch)

    assert "A.shared.reg" in violation_of("gemm", "registers", change, "values")


# -- 4: bounds


def test_an_index_that_is_off_by_one():
    def shift(stmt):
        return replace(stmt, target=replace(stmt.target, index=tuple(i + 1 for i in stmt.target.index)))

    assert "is outside" in violation_of("vector_add", "plain", nth(Stmt, -1, shift), "bounds")


def test_shared_memory_that_is_too_small():
    def change(launch):
        small = replace(launch.buffers["A.shared"], shape=(const(31), const(32)))
        return replace(launch, buffers={**launch.buffers, "A.shared": small})

    assert "outside 'A.shared'" in violation_of("gemm", "tiled", change, "bounds")


# -- 5 and 6: races and barriers


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("vector", [True, False])
@pytest.mark.parametrize("schedule", ["tiled", "coarsened", "wider", "rectangular", "registers", "warps", "pipelined"])
def test_a_barrier_that_is_gone(schedule, vector, number):
    found = violation_of("gemm", schedule, nth(Barrier, number, lambda _: ()), "races", vector=vector)
    assert found.startswith("no barrier stands between two accesses")
    assert "A.shared[" in found or "B.shared[" in found


def test_a_barrier_that_comes_too_late():
    def change(launch):
        loop = next(node for node in launch.body if isinstance(node, For))
        first = next(n for n, node in enumerate(loop.body) if isinstance(node, Barrier))
        body = list(loop.body)
        body[first], body[first + 1] = body[first + 1], body[first]
        return replace(launch, body=tuple(replace(n, body=tuple(body)) if n is loop else n for n in launch.body))

    assert "A.shared" in violation_of("gemm", "tiled", change, "races")


def test_a_barrier_under_a_test():
    under = nth(Barrier, 0, lambda b: If((Condition(const(15) - var("ti")),), (b,)))
    assert violation_of("gemm", "tiled", under, "text").startswith("a barrier stands under a test")


def test_a_barrier_too_many():
    twice = nth(Barrier, 0, lambda b: (b, b))
    assert "for nothing" in violation_of("transpose", "padded", twice, "barriers")


def test_a_comment_that_is_not_so():
    other = nth(Barrier, 1, lambda b: replace(b, claims=(Claim("RAW", "A.shared"),)))
    assert "says that it guards 'A.shared'" in violation_of("gemm", "tiled", other, "barriers")


def test_a_tile_that_all_threads_fill_with_their_own():
    def change(launch):
        def same(value):
            if isinstance(value, Access) and value.buffer == "A.shared":
                return replace(value, index=(const(0), const(0)))
            return value

        return in_body(same)(launch)

    assert "both write A.shared[0, 0]" in violation_of("gemm", "tiled", change, "races")


def test_blocks_that_meet():
    def change(launch):
        grid, where = launch.grid, launch.coordinates
        two = Product((const(2),))
        return replace(launch, grid=(grid[0], grid[1], two), coordinates=(*where, ("bz", "block.z", "")))

    assert "runs more than once" in violation_of("gemm", "naive", change, "coverage")


# -- 7: vectors and limits


def test_a_pad_that_vectors_cannot_have():
    def change(launch):
        odd = replace(launch.buffers["B.shared"], pad=1)
        return replace(launch, buffers={**launch.buffers, "B.shared": odd})

    assert "is not aligned" in violation_of("gemm", "registers", change, "vectors")


def swizzle_with(buffer, swizzle):
    def change(launch):
        return replace(launch, buffers={**launch.buffers, buffer: replace(launch.buffers[buffer], swizzle=swizzle)})

    return change


def test_a_swizzle_that_cuts_vectors():
    assert "moves units of 2" in violation_of("gemm", "registers", swizzle_with("B.shared", Swizzle(2, 8)), "vectors")
    assert proof_of("gemm", "registers", swizzle_with("B.shared", Swizzle(4, 8))).verdict == "proved"


def test_a_swizzle_beyond_the_row():
    assert "share a place" in violation_of("gemm", "registers", swizzle_with("B.shared", Swizzle(4, 64)), "limits")


def test_vectors_at_any_size():
    assert proof_of("gemm", "registers", lambda launch: replace(launch, requires=())).violation is not None


def test_vectors_in_memory_that_nothing_aligns():
    found = violation_of("gemm", "registers", lambda launch: replace(launch, alignment={}), "vectors")
    assert "nothing says that its memory is aligned" in found


@pytest.mark.parametrize("kind", [VectorCopy, VectorLoad])
def test_a_vector_that_starts_one_lane_on(kind):
    def shift(node):
        *rest, last = node.source.index
        return replace(node, source=replace(node.source, index=(*rest, last + 1)))

    proof = proof_of("gemm", "registers", nth(kind, 0, shift))
    assert proof.violation is not None


def test_a_block_that_no_gpu_has():
    (launch,) = lower(schedule_stock("gemm", "naive").tree)
    for block in [(32, 64, 1), (1, 1, 128)]:
        with pytest.raises(Refused, match="threads"):
            check_limits(replace(launch, block=block))
    large = replace(launch.buffers["A"], name="S", space="shared", shape=(const(1024), const(64)))
    with pytest.raises(Refused, match="262144 bytes of shared memory"):
        check_limits(replace(launch, buffers={**launch.buffers, "S": large}))
    with pytest.raises(Refused, match="67108864 bytes of registers a thread"):
        check_limits(replace(launch, buffers={"R": replace(large, space="register", shape=(const(2**24), const(1)))}))
    with pytest.raises(Refused, match="a grid of .* 65536 x 1 blocks"):
        check_limits(replace(launch, grid=(launch.grid[0], Product((const(65536),)), launch.grid[2])))


# -- what a user sees


def test_nothing_that_is_refused_is_compiled():
    proof = proof_of("gemm", "tiled", nth(Barrier, 0, lambda _: ()))
    with pytest.raises(ProofError, match="is not the kernel: no barrier stands between") as caught:
        demand(proof, "gemm")
    assert caught.value.exit_code == 3
    assert "A.shared[0, 0]" in caught.value.witness


def test_names_in_the_text_are_followed():
    """The names of a thread's places are read as they are printed."""
    wrong = nth(Let, 0, lambda let: replace(let, value=let.value + 1))
    assert proof_of("gemm", "registers", wrong).violation is not None


def test_a_register_that_is_declared_too_far_in():
    def change(launch):
        inner = next(node for node in launch.body if isinstance(node, For))
        declare = next(v for v in walk(launch.body) if isinstance(v, Declare) and v.buffer == "C.reg")
        body = tuple(replace(n, body=(declare, *n.body)) if n is inner else n for n in launch.body if n is not declare)
        return replace(launch, body=body)

    assert "'C.reg'" in violation_of("gemm", "registers", change, "text")


# -- asynchronous copies


@pytest.mark.parametrize("number", [0, 1])
def test_a_wait_that_leaves_too_many_on_their_way(number):
    more = nth(Barrier, number, lambda b: replace(b, wait=b.wait + 1))
    assert "may not have ended" in violation_of("gemm", "pipelined", more, "waits")
    none = nth(Barrier, number, lambda b: replace(b, wait=None))
    assert proof_of("gemm", "pipelined", none).verdict != "proved"


def test_copies_in_a_group_too_late():
    def change(launch):
        loops = [node for node in launch.body if isinstance(node, For)]
        late = {id(n): replace(n, body=tuple(sorted(n.body, key=lambda x: x == Arrive(COPIES)))) for n in loops[-1:]}
        return replace(launch, body=tuple(late.get(id(n), n) for n in launch.body))

    assert "may not have ended" in violation_of("gemm", "pipelined", change, "waits")


# -- integers


def test_an_index_that_leaves_32_bits():
    far = nth(If, -1, lambda node: replace(node, test=tuple(Condition(c.value * 5000) for c in node.test)))
    assert proof_of("vector_add", "plain", far).verdict == "unproved: integers"
    wide = replace(lower(schedule_stock("vector_add", "plain").tree, wide=True)[0])
    assert prove(wide.kernel, (far(wide),)).verdict == "proved"
