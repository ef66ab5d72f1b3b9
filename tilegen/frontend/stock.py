"""Stock files, and completing a text by the stock kernels and schedules that it leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from re import MULTILINE, match, split

from tilegen.errors import Collected, Source, SourceError, did_you_mean
from tilegen.frontend.build import build_with_defaults
from tilegen.frontend.by_form import find_form
from tilegen.frontend.data import FOLDERS, data_folder, stock_source
from tilegen.frontend.instructions.build import DeclaredInstructions
from tilegen.frontend.parse import parse, parse_instructions, stock_schedules
from tilegen.frontend.parsing.parameter_facts import check_facts
from tilegen.frontend.parsing.serving import check_families, without_others
from tilegen.frontend.syntax import KernelDecl, Module
from tilegen.ir.comparison.form import Names
from tilegen.ir.nodes import DTYPE_BYTES, Equation, Kernel
from tilegen.ir.steps import Define, Family, Schedule


@cache
def stock_names() -> tuple[str, ...]:
    """The names of the stock files."""
    files = [file.name for folder in FOLDERS for file in data_folder(folder).iterdir()]
    names = {name.removesuffix(".tg") for name in files if name.endswith(".tg")}
    return tuple(sorted(names - {"std", "instructions"}))


@cache
def standard_steps() -> Mapping[str, Define]:
    """The composite steps that every schedule may use."""
    return {d.word: d for d in parse(stock_source("schedules", "std")).defines}


@cache
def stock_instructions() -> DeclaredInstructions:
    """The stock instructions by name."""
    return parse_instructions(stock_source("schedules", "instructions"))


@cache
def stock(name: str) -> Module:
    """The stock module `name`: what schedules/ and examples/ hold under it; the former comes first."""
    first, *others = _parts(name)
    if not others:
        return _by_kernels(first)
    merged = _merge(first, others[0])
    text = "\n".join(part.source.text for part in (*others, first))
    kernels = {**others[0].kernels, **first.kernels}
    return _by_kernels(replace(merged, kernels=kernels, source=replace(first.source, text=text)))


def _parts(name: str) -> list[Module]:
    """The texts of the stock module `name`: the second one has the kernels where the first has schedules alone."""
    parts = [module] if (module := stock_schedules(name)) else []
    complete = parts and parts[0].schedules and parts[0].kernels
    if not complete and (data_folder("examples") / f"{name}.tg").is_file():
        parts.append(parse(stock_source("examples", name)))
    return parts


def with_stock(module: Module) -> tuple[Module, str]:
    """`module` with the stock kernels or schedules that it leaves out, and a remark on those that it does not get.

    A schedule whose kernel is not in the text is for the stock kernel of that name. A kernel alone gets the stock
    schedules for its name, if it has the loops and the tensors of the stock kernel: schedules speak of these.

    Raises:
        SourceError: a schedule is for a kernel that is nowhere.
    """
    wanted = {s.kernel for s in module.schedules} | {f.kernel for f in module.families}
    for name in sorted(wanted - module.kernels.keys()):
        if name in stock_names():
            module = _merge(module, stock(name))
    module, remark = _completed(module)
    collected = Collected()
    for schedule in module.schedules:
        with collected:
            _check_kernel(schedule, module)
    collected.raise_any()
    module = _by_kernels(module)
    check_families(module)
    return module, remark


def _completed(module: Module) -> tuple[Module, str]:
    """`module`, with the stock schedules where it is a kernel alone that may have them, and `with_stock`'s remark."""
    if module.schedules or len(module.kernels) != 1:
        return module, ""
    (name,) = module.kernels
    if name not in stock_names():
        return module, ""
    other = stock(name)
    if name not in other.kernels:
        return module, ""
    if not _have_one_form(module.kernels[name], other.kernels[name]):
        remark = f"the stock schedules of {name} are for a kernel with other loops or tensors, so it does not get them"
        return module, remark
    return _merge(module, other), ""


def schedules_by_form(kernel: Kernel) -> Iterator[str]:
    """Stock schedules, as `gemm.across`, of kernels that compute the same on the same types, one of each kernel.

    It is the first of a family, else the last one: the others lead to it. Those of families come first.
    """
    found = []
    for file in stock_names():
        for name, declared in _kernels_alone(file).items():
            other = build_with_defaults(declared)
            form = find_form(other, kernel) if other else ""
            if other and not isinstance(form, str) and _have_one_type(other, kernel, form.names):
                module = stock(file)
                families = _families_for(module, {name: module.kernels[name]})
                schedules = [s.name for s in module.schedules if s.kernel == name]
                first = [families[0].members[0].schedule] if families else schedules[-1:]
                found += [(not families, f"{file}.{each}") for each in first]
    return (schedule for _, schedule in sorted(found))


@cache
def _kernels_alone(name: str) -> Mapping[str, KernelDecl]:
    """The kernels of the stock module `name`, before the time that its schedules take to read."""
    kernels = dict[str, KernelDecl]()
    for folder in reversed(FOLDERS):
        if (data_folder(folder) / f"{name}.tg").is_file():
            source = stock_source(folder, name)
            items = split(r"^(?=(?:kernel|schedule|family|define|def)\b)", source.text, flags=MULTILINE)
            kept = [item for item in items if match(r"(kernel|def)\b", item)]
            kernels |= parse(Source(source.name, "".join(kept))).kernels
    return kernels


def _have_one_type(one: Kernel, other: Kernel, names: Names) -> bool:
    types = [{t.name: t.dtype for t in k.tensors} | {s.name: s.dtype for s in k.scalars} for k in (one, other)]
    return all(types[1].get(names.tensors.get(name, "")) == dtype for name, dtype in types[0].items())


def _check_kernel(schedule: Schedule, module: Module) -> None:
    """Raises SourceError where the schedule is for no kernel of the module."""
    if schedule.kernel not in module.kernels:
        known = [*module.kernels, *stock_names()]
        listed = f"the kernels of this text are {', '.join(module.kernels)}" if module.kernels else "it has none"
        notes = did_you_mean(schedule.kernel, known) or (listed,)
        raise SourceError(f"there is no kernel '{schedule.kernel}'", schedule.kernel_span, notes=notes)


def _by_kernels(module: Module) -> Module:
    """The module with what depends on the kernel: values that heads compute from types, and the members of families.

    Raises SourceError where one cannot be computed, and for a fact that the values break.
    """
    collected, found = Collected(), list[Schedule]()
    for schedule in module.schedules:
        with collected:
            computed = any(parameter.computed for parameter in schedule.parameters)
            found.append(_computed_for(module.kernels[schedule.kernel], schedule) if computed else schedule)
    collected.raise_any()
    return replace(module, schedules=tuple(found), families=tuple(without_others(module.families, found)))


def _computed_for(kernel: KernelDecl, schedule: Schedule) -> Schedule:
    tensors = (*kernel.inputs, *kernel.variables, *kernel.outputs)
    bytes_ = {f"{p.name.text}.bytes": DTYPE_BYTES[p.type.text] for p in tensors if p.type.text in DTYPE_BYTES}
    values = replace(schedule, bytes=bytes_).values()
    parameters = tuple(replace(p, default=values[p.name]) for p in schedule.parameters)
    check_facts(schedule.facts, parameters)
    return replace(schedule, parameters=parameters, bytes=bytes_)


def _merge(module: Module, other: Module) -> Module:
    """`module` with the kernels, schedules and steps of `other` that it does not have itself."""
    served = {family.kernel for family in module.families}
    schedules = module.schedules or tuple(s for s in other.schedules if s.kernel in {*module.kernels, *served})
    kernels = {n: k for n, k in other.kernels.items() if n in {s.kernel for s in schedules} | served}
    families = module.families or (() if module.schedules else _families_for(other, module.kernels))
    defines = (*other.defines, *module.defines)
    kernels |= module.kernels
    return replace(module, kernels=kernels, schedules=schedules, defines=defines, families=families)


def _families_for(module: Module, kernels: Mapping[str, KernelDecl]) -> tuple[Family, ...]:
    """The families for those of the kernels that have the sizes of the stock kernel, of which a family may speak."""

    def sizes(kernel: KernelDecl) -> set[str]:
        return {*kernel.size_names(), *kernel.constants}

    return tuple(
        family
        for family in module.families
        if family.kernel in kernels and sizes(kernels[family.kernel]) == sizes(module.kernels[family.kernel])
    )


def _have_one_form(one_decl: KernelDecl, other_decl: KernelDecl) -> bool:
    """True if the kernels have the same loops and tensors: what a schedule says of one can be said of the other."""
    one, two = build_with_defaults(one_decl), build_with_defaults(other_decl)
    return one is not None and two is not None and _form(one) == _form(two)


def _form(kernel: Kernel) -> tuple[object, ...]:
    tensors = [(t.name, t.dtype, t.role, t.order) for t in kernel.tensors]
    return tensors, [_form_of(equation) for equation in kernel.equations]


def _form_of(equation: Equation) -> tuple[object, ...]:
    loops = tuple(tuple(r.name for r in group) for group in (equation.loops, equation.reduced))
    return equation.target, equation.index, loops, equation.reduce
