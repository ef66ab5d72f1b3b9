"""From a text to a kernel and the steps of its schedules: grammar, names, types, shapes, index ranges."""

from tilegen.frontend.build import build
from tilegen.frontend.data import data_folder
from tilegen.frontend.parse import parse
from tilegen.frontend.syntax import KernelDecl, Module

__all__ = ["KernelDecl", "Module", "build", "data_folder", "parse"]
