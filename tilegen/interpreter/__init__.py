"""What a tree computes, on numpy; and what its kernel means, computed without any tree."""

from tilegen.interpreter.dtypes import NUMPY, bf16_to_float32, float_to_bf16
from tilegen.interpreter.expected.reference import Reference, reference
from tilegen.interpreter.run import InterpreterError, execute, run

__all__ = ["NUMPY", "InterpreterError", "Reference", "bf16_to_float32", "execute", "float_to_bf16", "reference", "run"]
