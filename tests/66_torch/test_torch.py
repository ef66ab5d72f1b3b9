"""Kernels as operators of torch: signatures, shapes without memory, gradients, torch's own checks of operators."""

import runpy
import sys
from itertools import count
from pathlib import Path

import pytest

import tilegen
from tilegen.errors import ArgumentError, UsageError
from tilegen.installation import install
from tilegen.torch import op, schema_of

SCALE = """
kernel scale(alpha: f32, A: f32[M, N]) -> B: f32[M, N]:
    B[i, j] = alpha * A[i, j]
"""
UPDATE = """
kernel add(A: f32[N], C: f32[N]) -> C: f32[N], D: f32[N]:
    D[i] = C[i] * 2
    C[i] = C[i] + A[i]
"""
UPDATE_ALONE = """
kernel add(A: f32[N], C: f32[N]) -> C: f32[N]:
    C[i] = C[i] + A[i]
"""
BOTH = """
kernel both(A: f32[M, N]) -> B: f32[N, M] col_major, C: bf16[2*M]:
    B[j, i] = A[i, j] + 1
    C[i] = bf16(A[i // 2, 0])
"""
REPEAT = """
kernel repeated(A: f32[N]) -> B: f32[R, N]:
    B[r, i] = A[i]
"""
NAMES = (f"tilegen_tests::op{n}" for n in count())
DEVICES = [pytest.param("cpu", marks=pytest.mark.pocl), pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def as_written(text):
    return tilegen.load(text).kernel().schedule()


def product():
    return tilegen.load("gemm").schedule("tiled", TS=16)


def gradients(ctx, grad):
    a, b, _ = ctx.saved_tensors
    return grad @ b.T, a.T @ grad


def tensors(torch, device, *shapes, grad=False):
    """Small integers, whose products and sums are exact."""
    torch.manual_seed(0)
    return [torch.randint(-3, 4, shape, device=device).float().requires_grad_(grad) for shape in shapes]


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        (SCALE, "(float alpha, Tensor A) -> Tensor"),
        (UPDATE, "(Tensor A, Tensor(a1!) C) -> Tensor"),
        (UPDATE_ALONE, "(Tensor A, Tensor(a1!) C) -> ()"),
        (BOTH, "(Tensor A) -> (Tensor, Tensor)"),
        (REPEAT, "(Tensor A, *, SymInt R) -> Tensor"),
    ],
)
def test_the_signature_is_the_kernels(text, schema):
    assert schema_of(tilegen.load(text).kernel().ir) == schema


def test_without_torch_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match="torch is not installed") as caught:
        op(product(), "mine::product")
    assert caught.value.notes == (install("torch"),)


def test_it_is_found_in_tilegen():
    assert tilegen.torch.op is op


def test_what_torch_has_no_operator_for_is_refused(torch):
    for text, name, backward, message in [
        (SCALE, "scale", None, "'scale' is no name of an operator"),
        ("kernel ramp() -> B: f32[N]:\n    B[i] = f32(i)\n", "m::ramp", None, "has no tensor among its inputs"),
        (UPDATE, "m::add", gradients, "updates C in place, and has no gradient"),
    ]:
        with pytest.raises(UsageError, match=message):
            op(as_written(text), name, backward=backward)
    name = next(NAMES)
    op(as_written(SCALE), name)
    with pytest.raises(UsageError, match=f"torch takes no operator {name}: "):
        op(as_written(SCALE), name)


@pytest.mark.parametrize("device", DEVICES)
def test_it_computes_the_kernel(torch, device):
    multiply, scale, repeated = (op(each, next(NAMES)) for each in (product(), *map(as_written, (SCALE, REPEAT))))
    a, b = tensors(torch, device, (33, 20), (20, 41))
    torch.testing.assert_close(multiply(a, b), a @ b)
    torch.testing.assert_close(scale(0.5, a), a / 2)
    torch.testing.assert_close(repeated(a[0], R=3), a[0].expand(3, 20))


@pytest.mark.parametrize("device", DEVICES)
def test_an_update_is_not_returned(torch, device):
    update, alone = (op(as_written(text), next(NAMES)) for text in (UPDATE, UPDATE_ALONE))
    a, c = tensors(torch, device, (9,), (9,))
    before = c.clone()
    torch.testing.assert_close(update(a, c), 2 * before)
    torch.testing.assert_close(c, before + a)
    assert alone(a, c) is None
    torch.testing.assert_close(c, before + 2 * a)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("text", [SCALE, UPDATE, UPDATE_ALONE, BOTH, REPEAT])
def test_torch_finds_nothing_wrong_with_it(torch, device, text):
    made = op(as_written(text), next(NAMES))
    (a,) = tensors(torch, device, (6, 5))
    arguments, sizes = {
        SCALE: ((0.5, a), {}),
        BOTH: ((a,), {}),
        REPEAT: ((a[0],), {"R": 3}),
    }.get(text, ((a[0], a[1].clone()), {}))
    assert set(torch.library.opcheck(made, arguments, sizes).values()) == {"SUCCESS"}


@pytest.mark.parametrize("device", DEVICES)
def test_torch_finds_nothing_wrong_with_a_gradient(torch, device):
    made = op(product(), next(NAMES), backward=gradients)
    a, b = tensors(torch, device, (33, 20), (20, 41), grad=True)
    assert set(torch.library.opcheck(made, (a, b)).values()) == {"SUCCESS"}
    made(a, b).square().sum().backward()
    got = a.grad, b.grad
    a.grad = b.grad = None
    (a @ b).square().sum().backward()
    torch.testing.assert_close(got, (a.grad, b.grad))
    with torch.no_grad():
        assert not made(a, b).requires_grad


@pytest.mark.parametrize("device", DEVICES)
def test_without_a_backward_a_gradient_is_refused_while_torch_records(torch, device):
    made, program = op(product(), next(NAMES)), product().compile(device)
    a, b = tensors(torch, device, (33, 20), (20, 41), grad=True)
    for call in (made, program):
        with pytest.raises(ArgumentError, match="A requires a gradient, and a kernel gives none") as caught:
            call(a, b)
        assert "A.detach() says that none is wanted" in caught.value.notes[0]
        with torch.no_grad():
            torch.testing.assert_close(call(a, b), a @ b)
        torch.testing.assert_close(call(a.detach(), b.detach()), (a @ b).detach())
    with pytest.raises(Exception, match="A requires a gradient, and a kernel gives none"):
        torch.compile(lambda x, y: made(x, y), backend="eager", fullgraph=True)(a, b)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compiles_what_is_around_it_in_one_graph(torch, device, dynamic):
    """By inductor on a GPU; on the CPU that would need a C++ compiler."""
    made = op(product(), next(NAMES), backward=gradients)

    def layer(a, b):
        return torch.relu(made(a * 2, b)) + 1

    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic, backend=backend)
    for rows in (32, 48, 17):
        a, b = tensors(torch, device, (rows, 20), (20, 41), grad=True)
        torch.testing.assert_close(compiled(a, b), torch.relu(2 * a @ b) + 1)
        compiled(a, b).sum().backward()
        got = a.grad, b.grad
        a.grad = b.grad = None
        (torch.relu(2 * a @ b) + 1).sum().backward()
        torch.testing.assert_close(got, (a.grad, b.grad))


@pytest.mark.parametrize("device", DEVICES)
def test_a_wrong_type_or_shape_is_told_while_tracing(torch, device):
    made = op(product(), next(NAMES))
    compiled = torch.compile(lambda a, b: made(a, b), fullgraph=True, backend="eager")
    a, b = tensors(torch, device, (33, 20), (20, 41))
    with pytest.raises(Exception, match="A is float64, and the kernel takes f32"):
        compiled(a.double(), b)
    with pytest.raises(Exception, match="B has shape"):
        compiled(a, b[1:].contiguous())


@pytest.mark.parametrize("device", DEVICES)
def test_torch_types_without_a_type_in_numpy_go_through(torch, device):
    text = (
        "kernel halve(A: bf16[N]) -> B: bf16[N], C: e4m3[N]:\n    B[i] = bf16(f32(A[i]) / 2)\n    C[i] = e4m3(A[i])\n"
    )
    made = op(as_written(text), next(NAMES))
    a = torch.tensor([1.0, -3.0], dtype=torch.bfloat16, device=device)
    b, c = made(a)
    assert (b.dtype, b.tolist()) == (torch.bfloat16, [0.5, -1.5])
    assert (c.dtype, c.float().tolist()) == (torch.float8_e4m3fn, [1, -3])
    for integers in (torch.int16, torch.uint16):
        with pytest.raises(ArgumentError, match="A is u?int16, and the kernel takes bf16") as caught:
            made(a.view(integers))
        assert caught.value.notes[-1] == "A.view(torch.bfloat16) takes integers for their bits"


@pytest.mark.pocl
def test_the_layer_of_the_example_is_right(torch, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["torch_layer.py", "17", "40", "24"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "torch_layer.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("schedule warps: 17 tokens, 40 -> 24")
    assert len([line for line in lines if "the largest error" in line]) == 2
