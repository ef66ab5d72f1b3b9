"""Which calls of a library are set beside a kernel on a GPU. Nothing here needs a GPU or torch.

A rival is the text of an expression, which `libraries.py` evaluates: what the table says was compared is what ran.
In it A and B are the factors, `bias` and R what is added, C the result (X and F image and filters of a convolution, of
G groups), seen as rows and columns of the product, in the order in which the kernel stores them. `one` is a scale of 1.
The names in the expression of a layer are those that `layers.py` gives to its tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.backends.arrays import shape_of
from tilegen.ir.nodes import Kernel
from tilegen.lab.convolution import Convolution
from tilegen.lab.layers import Layer
from tilegen.lab.products import SUMS, MatrixProduct

# Types of the factors -> what torch.backends.cuda.matmul is set to for them. Sums are as exact as the kernel's.
FLAGS: Mapping[str, Mapping[str, bool]] = {
    "f64": {},
    "f32": {"allow_tf32": False},
    "tf32": {"allow_tf32": True},
    "bf16": {"allow_bf16_reduced_precision_reduction": False},
    "f16": {"allow_fp16_reduced_precision_reduction": False, "allow_fp16_accumulation": False},
    "e4m3": {},
    "i8": {},
}
# An activation, as ACTIVATIONS calls it -> torch's, and the one that torch fuses with a product and a bias.
_APPLY = {
    "relu": ("torch.relu({})", "torch._addmm_activation(bias, A, B)"),
    "gelu": ("torch.nn.functional.gelu({})", "torch._addmm_activation(bias, A, B, use_gelu=True)"),
    "gelu by tanh": (
        'torch.nn.functional.gelu({}, approximate="tanh")',
        "torch._addmm_activation(bias, A, B, use_gelu=True)",
    ),
}  # fmt: skip
TORCH = {
    "f64": "float64",
    "f32": "float32",
    "tf32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "i8": "int8",
    "i32": "int32",
}
_SHORT = ("bf16", "f16")
_CONVOLUTIONS = {1: "conv1d", 2: "conv2d", 3: "conv3d"}


@dataclass(frozen=True)
class Rival:
    """One call of a library.

    Attributes:
        name: what its row is called.
        text: the expression.
        types: those of the factors, the sums and the result.
        computed: the type that all of its tensors have; what is added is converted to it ahead.
        flags: what torch's matrix products are set to.
        note: in what it does something else than the kernel.
        rounded: its sums are rounded to 16 bits, and those of the kernel have more.
        compiled: the expression goes through torch.compile.
        stands_in: it counts only where no other one works.
    """

    name: str
    text: str
    types: str
    computed: str
    flags: Mapping[str, bool]
    note: str = ""
    rounded: bool = False
    compiled: bool = False
    stands_in: bool = False

    def __str__(self) -> str:
        words = [f"{self.call}; {self.types}", *(f"{name}={value}" for name, value in self.flags.items())]
        return ", ".join([*words, *([self.note] if self.note else [])])

    @property
    def call(self) -> str:
        """The expression, for a reader."""
        return f"torch.compile of {self.text}" if self.compiled else self.text


def rivals_of_product(
    found: MatrixProduct, kernel: Kernel, sizes: Mapping[str, int], *, torch: bool = True
) -> tuple[Rival, ...] | str:
    """The library calls that compute the product; or in a sentence why there are none.

    Args:
        torch: whether torch is installed; without it, cupy calls cuBLAS for the simplest products alone.
    """
    if found.sums not in SUMS.get(found.operands, ()):
        return f"no library has products of {found.operands} with sums in {found.sums}"
    if not torch:
        return _of_cupy(found)
    if found.operands == "i8":
        return _of_integers(found, kernel, sizes)
    if found.operands == "e4m3":
        return _of_bytes(found, kernel, sizes)
    wide = found.operands in _SHORT and found.result == "f32"
    rivals = _in_one_type(found, "f32", _forms(found, ", out_dtype=torch.float32")) if wide else ()
    return (*rivals, *_in_one_type(found, found.operands, _forms(found, "")))


def rivals_of_convolution(found: Convolution) -> tuple[Rival, ...]:
    """cuDNN, by torch, with the channels first and with the channels last; with what it fuses with them."""
    flat = len(found.stride) == 1
    # torch has a storage order with the channels last for two and three dimensions.
    forms = ("X, F", "X_channels_last, F_channels_last")[: 1 if flat else 2]
    types = f"{found.operands} x {found.operands} -> {found.result}, no TF32, the fastest algorithm"
    texts = [_op_by_op(found, arrays) for arrays in forms]
    if found.activation == "relu" and not flat:
        bias, groups = "bias" if found.bias else None, "G" if found.grouped else 1
        given = f"{bias}, {found.stride}, {found.padding}, {found.dilation}, {groups}"
        texts += [f"torch.cudnn_convolution_relu({arrays}, {given})" for arrays in forms]
    texts = [text if found.result == found.operands else _convert(text, found.result) for text in texts]
    name = "torch" if found.bias or found.activation else "cuDNN"
    rounded = found.operands in _SHORT and found.operands != found.result
    note = f"rounded to {found.operands} first" if rounded else ""
    return tuple(Rival(name, text, types, found.operands, {}, note, rounded, stands_in=rounded) for text in texts)


def rivals_of_layer(found: Layer) -> tuple[Rival, ...]:
    """What torch has for the layer: op by op, and by torch.compile, which fuses what stands behind the products.

    A call that rounds sums to 16 bits counts like the others: it is what people write.
    """
    short = found.operands in _SHORT
    types = f"{found.operands} x {found.operands} -> {found.result}, sums in {found.sums}"
    made = []
    for way in found.form.ways:
        text = way.text.format(result=TORCH[found.result], wide=", out_dtype=torch.float32" if short else "")
        rounded = way.rounds and short
        note = f"rounded to {found.operands} first" if rounded else way.note
        for name in ("torch", "torch.compile") if way.compiled else ("torch",):
            flags, compiled = FLAGS[found.operands], name == "torch.compile"
            made += [Rival(name, text, types, found.operands, flags, note, rounded, compiled)]
    return tuple(made)


def _op_by_op(found: Convolution, arrays: str) -> str:
    """A convolution of torch with a bias, and the activation behind it."""
    word = f"torch.nn.functional.{_CONVOLUTIONS[len(found.stride)]}"
    given = f"stride={found.stride}, padding={found.padding}, dilation={found.dilation}"
    bias, groups = ", bias" if found.bias else "", ", groups=G" if found.grouped else ""
    text = f"{word}({arrays}{bias}, {given}{groups})"
    return _APPLY[found.activation][0].format(text) if found.activation else text


def _in_one_type(found: MatrixProduct, computed: str, forms: list[str]) -> tuple[Rival, ...]:
    """The expressions `forms`, all of whose tensors have the type `computed`, with a conversion to the result's."""
    name = "torch" if found.bias or found.residual or found.activation else "cuBLAS"
    rounded = computed in _SHORT and computed != found.result
    note = f"rounded to {computed} first" if rounded else ""
    made = [form if TORCH[computed] == TORCH[found.result] else _convert(form, found.result) for form in forms]
    tanh = "gelu by tanh" if found.activation == "gelu" else ""
    notes = [", ".join(filter(None, (note, tanh if "use_gelu" in form else ""))) for form in forms]
    flags, types = FLAGS[found.operands], _types(found)
    return tuple(
        Rival(name, text, types, computed, flags, remark, rounded, stands_in=rounded)
        for text, remark in zip(made, notes, strict=True)
    )


def _convert(text: str, dtype: str) -> str:
    return f"({text}).to(torch.{TORCH[dtype]})"


def _types(found: MatrixProduct) -> str:
    sums = {"f64": "f64", "i8": "i32"}.get(found.operands, "f32")
    return f"{found.operands} x {found.operands} -> {found.result}, sums in {sums}"


def _of_cupy(found: MatrixProduct) -> tuple[Rival, ...] | str:
    plain = not (found.bias or found.residual or found.activation)
    if not plain or found.operands not in ("f64", "f32", "f16") or found.result != found.operands:
        return "torch is not installed, and cupy has no such product"
    return (Rival("cuBLAS", "cupy.matmul(A, B, out=C)", _types(found), found.operands, {}),)


def _of_integers(found: MatrixProduct, kernel: Kernel, sizes: Mapping[str, int]) -> tuple[Rival, ...] | str:
    """torch._int_mm, where it admits the product."""
    if found.batch or found.bias or found.residual or found.activation or found.result != "i32":
        return "torch._int_mm gives one product in i32 and nothing behind it"
    m, k = (shape_of(kernel.tensor(found.a), sizes)[axis] for axis in found.a_axes)
    n = shape_of(kernel.tensor(found.b), sizes)[found.b_axes[1]]
    if m <= 16 or k % 8 or n % 8:
        return f"torch._int_mm takes more than 16 rows, and columns and terms in multiples of 8, not {m} x {n} x {k}"
    if not _are_stored_along_k(found, kernel):
        return "torch._int_mm takes A and B that are stored along k alone: B transposed"
    return (Rival("cuBLAS", "torch._int_mm(A, B)", _types(found), "i8", {}),)


def _of_bytes(found: MatrixProduct, kernel: Kernel, sizes: Mapping[str, int]) -> tuple[Rival, ...] | str:
    """torch._scaled_mm, where it admits the product: with sums in f32, and as short as tensor cores have them."""
    if found.batch or found.bias or found.residual or found.activation or found.result not in ("f32", "f16", "bf16"):
        return "torch._scaled_mm gives one product in f32, f16 or bf16 and nothing behind it"
    k = shape_of(kernel.tensor(found.a), sizes)[found.a_axes[1]]
    n = shape_of(kernel.tensor(found.b), sizes)[found.b_axes[1]]
    if k % 16 or n % 16:
        return f"torch._scaled_mm takes columns and terms in multiples of 16, not {n} and {k}"
    if not _are_stored_along_k(found, kernel):
        return "torch._scaled_mm takes A and B that are stored along k alone: B transposed"
    call = f"torch._scaled_mm(A, B, one, one, out_dtype=torch.{TORCH[found.result]}"
    short = Rival("cuBLAS", f"{call}, use_fast_accum=True)", _types(found), "e4m3", {}, "no sums of parts")
    return (Rival("cuBLAS", f"{call})", _types(found), "e4m3", {}), short)


def _are_stored_along_k(found: MatrixProduct, kernel: Kernel) -> bool:
    along = [kernel.tensor(name).order[-1] for name in (found.a, found.b)]
    return along == [found.a_axes[1], found.b_axes[0]]


def _forms(found: MatrixProduct, option: str) -> list[str]:
    """The product and what follows it: op by op, and with what torch fuses with it."""
    product, add = ("torch.bmm", "torch.baddbmm") if found.batch else ("torch.mm", "torch.addmm")
    forms = [f"{product}(A, B{option})"]
    first = "bias" if found.bias else "R" if found.residual and (found.inside or not found.activation) else ""
    later = " + R" if found.residual and first != "R" else ""
    if first:
        forms = [f"{forms[0]} + {first}", f"{add}({first}, A, B{option})"]
    if found.inside:
        forms = [form + later for form in forms]
    if found.activation:
        apply, fused = _APPLY[found.activation]
        forms = [apply.format(form) for form in forms]
        plain = not (found.batch or option or found.inside) and found.bias and found.bias.axes == (None, 0)
        # cuBLAS has gelu by tanh alone, which is the same in 16 bits.
        same = found.activation != "gelu" or found.operands in _SHORT
        forms += [fused] if plain and same else []
    return forms if found.inside else [form + later for form in forms]
