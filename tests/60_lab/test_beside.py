"""What a kernel's text sets beside it: read, evaluated and held against the kernel."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilegen.api import load, stock_names
from tilegen.backends.calls.engine import Engine
from tilegen.backends.calls.host import HostArrays
from tilegen.backends.devices.devices import engine
from tilegen.ir.nodes import Kernel
from tilegen.ir.parts.beside import Beside, NotListed, check
from tilegen.lab.checks.agreement import Agreement
from tilegen.lab.checks.sizes import power_sizes
from tilegen.lab.measure.beside import COPY, Library, Meaning
from tilegen.lab.measure.compare import ComparisonRun
from tilegen.lab.measure.timing import fastest_rival, random_arrays

LIMITS = (2**20, 2**22)  # of what runs on a CPU


def stock_kernels() -> list[tuple[str, str]]:
    files = {name: load(name) for name in stock_names()}
    return [(name, each) for name, file in files.items() for each in file.kernels if file.kernels[each].beside]


STOCK = stock_kernels()
IDS = [f"{file}-{name}" for file, name in STOCK]


class OnCpu(HostArrays):
    """An engine that claims a GPU; torch computes on the CPU all the same, and numpy stands for cupy."""

    on_gpu = True
    name = "a CPU"


def kernel_of(file: str, name: str) -> Kernel:
    return load(file).kernel(name).ir


def sizes_of(kernel: Kernel) -> dict[str, int]:
    """Small sizes; torch's products of bytes take multiples of 16, more than 16 rows."""
    return {n: max(v, 32) if n in "MNK" else v for n, v in power_sizes(kernel.meant_kernel, {}, LIMITS).items()}


def agreement_of(kernel: Kernel, on: Engine, sizes: dict[str, int], seeds: int = 2) -> Agreement:
    sets = [random_arrays(on, kernel.meant_kernel, sizes, seed) for seed in range(seeds)]
    return Agreement(kernel, on.xp, sizes, sets)


def compared(file: str, name: str, on: Engine) -> tuple[str | None, tuple[str, ...]]:
    kernel = kernel_of(file, name)
    sizes = sizes_of(kernel)
    found, _, notes = fastest_rival(Library(kernel, on, sizes), on, agreement_of(kernel, on, sizes))
    return found, notes


# -- the stock kernels


def test_all_that_torch_has_is_set_beside_a_kernel() -> None:
    names = {name for _, name in STOCK}
    assert {"gemm", "hgemm_e4m3", "swiglu", "linear_sums", "matching_f16", "hconv_grouped", "conv3d"} <= names
    assert len(STOCK) >= 54


@pytest.mark.parametrize(("file", "name"), STOCK, ids=IDS)
def test_what_torch_computes_on_the_cpu_is_the_kernel(file: str, name: str) -> None:
    pytest.importorskip("torch")
    found, notes = compared(file, name, OnCpu())
    # The CPU has no product of 16-bit factors with a result in f32, and no call of cuDNN; none may be wrong.
    refused = [note for note in notes if note.startswith("not compared")]
    assert all("Could not run 'aten::" in note or "only supported for CUDA" in note for note in refused), notes
    assert found or refused, notes


@pytest.mark.gpu
@pytest.mark.parametrize(("file", "name"), STOCK, ids=IDS)
def test_what_libraries_compute_on_a_gpu_is_the_kernel(file: str, name: str) -> None:
    """All calls run, and are right: nothing is refused."""
    pytest.importorskip("torch")
    found, notes = compared(file, name, engine("cuda"))
    print("\n".join(notes))
    assert found
    assert not [note for note in notes if note.startswith("not compared")], notes


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["gemm", "hgemm_bias_gelu", "matching_f16", "transpose"])
def test_a_kernel_is_checked_and_timed_beside_the_library(name: str) -> None:
    pytest.importorskip("torch")
    file = {"hgemm_bias_gelu": "hgemm", "matching_f16": "matching_products"}.get(name, name)
    kernel = load(file).kernel(name)
    result = ComparisonRun({"plain": kernel.schedule().tree}, engine("cuda"), dict.fromkeys(kernel.ir.sizes, 64)).run()
    print("\n".join(result.beside))
    plain, theirs = result.rows
    assert (plain.error, theirs.name) == (None, result.rival)
    assert plain.time is not None
    assert theirs.time is not None


@pytest.mark.parametrize(("file", "name"), [s for s in STOCK if any(b.library == "cupy" for b in kernel_of(*s).beside)])
def test_without_torch_cupy_computes_it(file: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilegen.lab.measure.beside.find_spec", lambda name: None)
    found, notes = compared(file, name, OnCpu())
    assert (found, len(notes)) == ("cupy", 1)


# -- what stands beside others


def test_what_moves_data_stands_beside_a_copy_and_others_say_why_there_is_nothing() -> None:
    assert Library(kernel_of("transpose", "transpose"), OnCpu(), {"M": 64, "N": 64}).lines == (COPY,)
    own = load("kernel own(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])\n")
    library = Library(own.kernel().ir, OnCpu(), {"M": 4096, "K": 4096, "N": 4096})
    assert (library.lines, library.missing) == ((), 'the kernel\'s text says nothing: beside torch "A @ B"')


def test_a_call_that_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilegen.lab.measure.beside.find_spec", lambda name: None)
    text = load("gemm").kernel("gemm").file.kernel_alone("gemm").replace('cupy "A @ B"', 'cupy "{}"')
    for other, why in {
        "A @ B + A[:, :1]": "times as far off as rounding can explain",
        "(A @ B)[:, :1]": "its result has the shape",
        "B @ A": "mismatch",
        "(A.astype(cupy.float64) @ B)": None,
        "(A * 1.0) @ B": "",
    }.items():
        if why is None:
            with pytest.raises(Exception, match="astype is not on the list"):
                load(text.format(other)).kernel()
            continue
        kernel = load(text.format(other)).kernel().ir
        sizes = {"M": 64, "K": 64, "N": 48}
        found, _, notes = fastest_rival(Library(kernel, OnCpu(), sizes), OnCpu(), agreement_of(kernel, OnCpu(), sizes))
        assert (found is None) == bool(why)
        assert why in notes[0]


# -- expressions


def value(text: str, library: str = "torch", **given: Any) -> Any:
    arrays = {name: each for name, each in given.items() if isinstance(each, np.ndarray)}
    numbers = {name: each for name, each in given.items() if name not in arrays}
    check(text, library, [*given], 2 if text.startswith("((") else 1)
    module = SimpleNamespace(
        nn=SimpleNamespace(functional=SimpleNamespace(gelu=lambda x, approximate="none": (x, approximate))),
        sum=np.sum, ones=np.ones, float32=np.float32, mm=np.matmul,
    )  # fmt: skip
    return Meaning(Beside(library, text), module, numbers, arrays)()


def test_an_expression_is_what_python_makes_of_it() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    for text in ("A @ B", "-A + 2 * A / 3 - A**2", "A.T[1:, None]", "(A @ B)[:, 0]", "A.sum(1)", "A % 2 // 1"):
        assert (value(text, A=a, B=b, s=2) == eval(text, {"A": a, "B": b, "s": 2})).all(), text
    assert value("torch.nn.functional.gelu(A, approximate='tanh')", A=a)[1] == "tanh"
    assert (value("torch.sum(A, axis=0) * s", A=a, s=2) == a.sum(0) * 2).all()
    first, second = value("((P := A @ B) + 1, P.sum(1))", A=a, B=b)
    assert (first == a @ b + 1).all()
    assert (second == (a @ b).sum(1)).all()


@pytest.mark.parametrize(
    "text",
    [
        "", "A @", "A B", "lambda: A", "[A for A in A]", "A if A else A", "A < A", "A and A", "f'{A}'", "A.__class__",
        "A[0].__init__", "__import__('os')", "torch.load('x')", "torch.nn", "torch.nn.functional.gelu.__globals__",
        "torch.mm(*A)", "torch.mm(**A)", "A()", "A.T()", "(A)(A)", "A.sum(1)(A)", "P", "(P + (P := A))", "A := A",
        "9**9**9", "A**99", "(1, 2) * 1000", "'a' * 9", "b'a'", "1j", "...", "~A", "not A", "{A}", "{1: A}", "A." * 999,
        "(" * 300 + ")" * 300, "A" * 2000, "await A", "yield A", "*A", "torch", "torch.float32.x", "A.T.tolist()",
    ],
)  # fmt: skip
def test_what_is_on_no_list_is_refused(text: str) -> None:
    with pytest.raises(NotListed) as raised:
        check(text, "torch", ["A"], 1)
    assert 0 <= raised.value.place <= len(text)


def test_what_needs_no_values_is_made_before() -> None:
    a = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    made = {
        "A.T.to(torch.float32) @ A": ["A.T.to(torch.float32)"],
        "A.contiguous().sum(1)": ["A.contiguous()"],
        "A.permute(1, 0).contiguous() + torch.ones((3, 2), dtype=A.dtype)": [
            "A.permute(1, 0).contiguous()",
            "torch.ones((3, 2), dtype=A.dtype)",
        ],
        "A.sum(1).to(torch.float32)": [],
        "(P := A @ A.T).to(torch.float32)": [],
        "torch.mm(A, A.T)": [],
    }
    given = {"A": SimpleNamespace(dtype=np.float32)}
    for text, wanted in made.items():
        check(text, "torch", ["A"], 1)
        meaning = Meaning.__new__(Meaning)
        meaning._expression, meaning._library = ast.parse(text, mode="eval").body, "torch"
        meaning._numbers, meaning._tensors = {}, given
        assert [ast.unparse(node) for node in meaning._made_before()] == wanted
    assert a.shape == (2, 3)
