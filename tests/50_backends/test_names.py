"""Names of users that mean something in CUDA or OpenCL: each stays a word of the user's, in every role."""

import re

import numpy as np
import pytest

from tests.support.cover import each_stock_schedule
from tests.support.stock import lower_stock
from tests.support.written import tree_from
from tilegen import load
from tilegen.backends.compiler import nvrtc
from tilegen.backends.devices.devices import engine, program
from tilegen.backends.text import emit
from tilegen.backends.text.helpers import paragraphs
from tilegen.backends.text.names import names_of
from tilegen.errors import SourceError
from tilegen.ir.printing.reserved_words import fresh, means
from tilegen.lowering import lower

NASTY = re.findall(
    r"\w+",
    """
abs exp main double printf dot mad clamp round dim3 sqrtf fabs rsqrtf fmaf atan2f erff log2 powf mix step sign cross
length normalize distance hypot sincos popcount clz isnan j0 y1 norm3d rnorm4d normcdf mul24 saturate umin llmax
NULL INFINITY NAN EOF M_PI M_PI_F HUGE_VAL FLT_MAX INT_MAX CHAR_BIT linux unix errno stdout assert va_list CUDA_VERSION
CLK_LOCAL_MEM_FENCE cl_khr_fp64 cl_mem_fence_flags __OPENCL_VERSION__ __CUDA_ARCH__ __syncthreads __expf __half _Bool
malloc free memcpy memset strlen clock clock64 time exit puts cudaMalloc cudaStreamDefault libraryPropertyType CUuuid
half half2 float4 uchar16 double2 longlong4_16a size_t uint32_t image2d_t event_t queue_t nv_bfloat16 wchar_t quad
make_float4 as_float as_int4 convert_int convert_float4_rte vload4 vstore_half native_sin half_sin select shuffle
get_global_id get_local_id barrier mem_fence work_group_barrier sub_group_reduce_add atomicAdd atomic_add atom_inc
async_work_group_copy prefetch tex2D surf2Dwrite hsin h2exp __ldcs threadIdx blockDim warpSize
auto bitand char class compl const constexpr default delete enum explicit extern global goto inline kernel_ local
namespace new nullptr operator private restrict register signed sizeof static struct template this typename union
unsigned volatile void while xor constant pipe read_only uniform concept requires co_await asm typeof
index candidate full hidden shared tid value other lanes floor_div load_half copy_async sum_of_lanes _ __ ___ _x _X _1
a__b x__ T place atomic_add_float approximate_tanh sum_of_float_lanes std cuda main_ abs_
""",
)


def nasty_kernel(number):
    """One kernel whose name, tensors, sizes and loops are four neighbours in the list."""
    name, tensor, size, loop, other = (NASTY[(number + n) % len(NASTY)] for n in range(5))
    text = f"""
kernel {name}({tensor}: f32[N0, {size}], half_: f16[{size}]) -> {other}: f32[N0]:
    {other}[i0] = max[{loop}](exp({tensor}[i0, {loop}]) + sqrt(f32(half_[{loop}])) + ({tensor}[i0, {loop} - 3] else 0))
"""
    kernel = load(text).kernel().schedule()
    return name, kernel.tile("i0", 128, into=("b0", "t0")).bind("b0", "block.x").bind("t0", "thread.x")


@pytest.fixture(scope="module")
def nasty():
    """(launches, names) of a kernel for each name, no two of one entry point."""
    found = [nasty_kernel(number) for number in range(len(NASTY))]
    entries, launches = set(), []
    for _, kernel in found:
        (launch,) = lower(kernel.tree)
        launches += [launch] if launch.name not in entries else []
        entries.add(launch.name)
    assert len(launches) > len(NASTY) - 9
    return launches


@pytest.mark.nvrtc
@pytest.mark.usefixtures("quick_compiler")
def test_cuda_takes_a_kernel_of_any_names(nasty):
    compiled = nvrtc.compile_text(emit(nasty, "cuda"), "sm_90")
    assert set(compiled.resources) == {launch.name for launch in nasty}


@pytest.mark.pocl
def test_opencl_takes_a_kernel_of_any_names(nasty):
    assert set(engine("cpu").build(emit(nasty, "opencl"), nasty)) == {launch.name for launch in nasty}


def test_names_in_a_text_are_apart(nasty):
    for launch in nasty:
        names = names_of(launch)
        assert len({*names.values(), launch.name}) == len(names) + 1
        changed = {name for name in (*names.values(), launch.name) if name.endswith("_")}
        assert not any(means(name) or name.startswith("__") for name in {*names.values()} - changed)
        assert launch.name in changed or not means(launch.name, entry=True)


@pytest.mark.pocl
@pytest.mark.parametrize(
    "name", ["abs", "min", "exp", "main", "double", "printf", "dot", "clamp", "int", "__half", "free"]
)
def test_a_kernel_of_a_built_in_name_runs(name):
    text = f"kernel {name}(A: f32[N]) -> B: f32[N]:\n    B[i] = 2 * A[i]\n"
    ready = load(text).kernel().schedule().tile("i", 8, into=("b", "t")).bind("b", "block.x").bind("t", "thread.x")
    a = np.arange(11, dtype=np.float32)
    assert (program(ready.tree, engine("cpu"))(a) == 2 * a).all()


@pytest.mark.pocl
def test_what_the_text_declares_for_itself_hides_no_loop():
    """The best of parts is compared through names of the text's own, which a loop or a tensor may have, too."""
    text = """
kernel best(candidate: f32[M, N]) -> part: i32[M]:
    part[index] = argmax[j](candidate[index, j])
"""
    steps = load(text).kernel().schedule().tile("j", 32, into=("o", "lane")).rfactor("part", "lane", into=("full",))
    values = np.random.default_rng(0).random((5, 70), dtype=np.float32)
    assert (program(steps.tree, engine("cpu"))(values) == values.argmax(1)).all()


def test_two_launches_have_two_names():
    """k_a of the tensor `a`, and what the second launch of it would be called, is a tensor, too."""
    text = """
kernel k(x: f32[N]) -> a: f32[N], a_2: f32[N], k_a: f32[N]:
    a[i] = x[i]
    a_2[i] = x[i] + 1
    k_a[i] = x[i] + 2
"""
    launches = lower(load(text).kernel().schedule().tree)
    names = [launch.name for launch in launches]
    assert names == ["k_a", "k_a_2", "k_k_a"]
    assert all(launch.name not in names_of(launch).values() for launch in launches)


def test_a_name_changes_as_little_as_it_can():
    taken: set[str] = {"busy"}
    wanted = {
        "gemm": "gemm",
        "abs": "abs_",
        "__x": "x",
        "busy": "busy_2",
        "A.shared": "A_shared",
        "_": "v",
        "main": "main_",
    }
    assert {name: fresh(name, set(taken), entry=True) for name in wanted} == wanted
    assert fresh("dot", set()) == "dot"  # a loop may hide what no text calls
    assert fresh("busy", taken) == "busy_"
    assert fresh("busy", taken) == "busy_2"


def called_functions(text):
    """What is called in a text, its entry points, its own functions and those of its structs aside."""
    code = re.sub(r"//.*|\"[^\"]*\"|#.*|extern \"C\"", "", text)
    entries = set(re.findall(r"^(?:static inline void )?(\w+)\(", code, re.M))
    members = set(re.findall(r"^ .*__forceinline__ \w+ (\w+)\(", code, re.M))
    return set(re.findall(r"(?<!\.)\b([A-Za-z]\w*)\s*(?:<\d+>)?\(", code)) - entries - members


def test_every_word_that_texts_call_is_known():
    """No function that a text calls is hidden by a name of the user's, and none is defined again by an entry point."""
    texts = [each.text for language in ("cuda", "opencl") for each in paragraphs(language)]
    assert {word for text in texts for word in called_functions(text) if not means(word, entry=True)} <= {
        "asm",
        "defined",
    }


@each_stock_schedule
def test_every_word_that_a_kernel_calls_is_known(name, schedule):
    for language in ("cuda", "opencl"):
        text = emit(lower_stock(name, schedule), language)
        kernels = text[re.search("__launch_bounds__|__kernel", text).start() :]
        own = set(re.findall(r"(?:const auto|static inline void) (\w+)(?: = \[|\()", text))
        own |= set(re.findall(r"__forceinline__ void (\w+)\(", text))  # instructions
        assert {word for word in called_functions(kernels) - own if not means(word)} <= {
            "reqd_work_group_size",
            "aligned",
        }


def test_a_long_name_is_refused():
    with pytest.raises(SourceError, match="a name of 65 letters"):
        load(f"kernel {'k' * 65}(A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n")


NAMED = """
kernel copy(X: f32[M, N]) -> Y: f32[M, N]:
    Y[i, j] = X[i, j]

schedule s for copy(TM=8, N=16, size=4, M=2):
    tile(i, TM) -> bi, ti
    tile(j, N) -> bj, tj
    tile(ti, size) -> wi, ti
    tile(bj, M) -> bj, cj
    order(bi, bj, ...)
    bind(bi, block.y)
    bind(bj, block.x)
"""


def test_a_number_has_the_name_of_its_parameter_where_nothing_else_has_it():
    """N and M are sizes, and what has small letters may be a name of the text's own: their numbers stay."""
    text = emit(lower(tree_from(NAMED)))
    assert "constexpr int TM = 8;" in text
    assert "X[(bi * TM + wi * 4 + ti) * N + bj * 32 + cj * 16 + tj]" in text
