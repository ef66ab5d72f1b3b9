"""What explain says of roles: who does what, and what that costs."""

from tests.support.stock import schedule_stock
from tests.support.written import ahead
from tilegen.cli.looks.explain_printing import role_lines
from tilegen.lab.predict.explain import explain_tree

N = 2**20
PAIR = """
kernel pair(a: f32[40*N], b: f32[24*N]) -> c: f32[40*N], d: f32[24*N]:
    c[i] = sin(a[i])
    d[j] = log(b[j])

schedule narrow for pair():
    tile(i, 40) -> bc, tc
    tile(j, 24) -> bd, td
    bind(tc, thread.x)
    bind(td, thread.x)
"""


def report(name, schedule, place=0):
    return explain_tree(schedule_stock(name, schedule).tree, {"N": N}, compiled=False)[place]


def pair(*steps):
    return explain_tree(ahead(steps, PAIR), {"N": 1200}, compiled=False)[0]


def loaded(report):
    found = {}
    for t in report.traffic:
        if t.space == "global" and not t.store:
            found[t.site.buffer] = found.get(t.site.buffer, 0) + t.bytes // 4
    return found


def test_each_role_s_loads_are_its_own_threads_alone():
    block = report("chain", "fused_block")
    assert loaded(block) == {"a": 2 * N, "b": N}
    assert str(block.loads("global")) == "3*N"
    (roles,) = block.roles
    assert roles.parts == (("tc", 0, 256), ("td", 256, 256))
    assert (roles.mixed, roles.alike, roles.handed_on) == (0, ("a",), ("c.shared", "d.shared"))
    assert roles.behind == (("out", 256),)
    assert role_lines(roles, block)[-1] == "out is the work of 256 of 512 threads"


def test_each_role_s_loads_are_its_own_blocks_alone():
    launch = report("chain", "fused_launch")
    assert loaded(launch) == {"a": 2 * N, "b": N}
    assert str(launch.loads("global")) == "3*N"
    three = [report("chain", "three_launches", place) for place in (0, 1)]
    assert launch.work.operations == sum(one.work.operations for one in three)
    assert launch.roles[0].parts == (("bc", 0, N // 256), ("bd", N // 256, N // 256))


def test_a_warp_of_two_roles_is_told():
    assert pair("fuse(bc, bd) -> bi", "roles(tc, td) -> t").roles[0].mixed == 1
    apart = pair("fuse(bc, bd) -> bi", "roles(tc, td, align=32) -> t")
    assert apart.roles[0].mixed == 0
    assert apart.roles[0].parts == (("tc", 0, 40), ("td", 64, 24))
