"""What form a kernel has: a matrix product, a convolution."""

from tilegen.lab.forms.convolution import Convolution, as_convolution
from tilegen.lab.forms.product import MatrixProduct, as_product, operands

__all__ = ["Convolution", "MatrixProduct", "as_convolution", "as_product", "operands"]
