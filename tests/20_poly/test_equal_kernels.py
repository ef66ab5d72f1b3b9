"""Equal kernels have the answers about them in common; what is said of a step is said where that stands."""

import pytest

import tilegen
from tilegen.errors import IllegalStep
from tilegen.poly.instances import original_of

TEXT = """kernel twice(A: f32[N]) -> B: f32[N]:
    B[i] = 2 * A[i]

schedule fine for twice():
    tile(i, 4) -> b, t

schedule wrong for twice():
    tile(i, 4) -> b, t
    bind(t, block.x)
    bind(b, thread.x)
"""


def test_equal_kernels_of_two_texts_are_asked_about_once():
    one, two = (tilegen.load(lead + TEXT).schedule("fine").kernel for lead in ("", "# moved\n\n"))
    assert one is not two
    assert original_of(one) is original_of(two)
    other = tilegen.load(TEXT.replace("2 *", "3 *")).schedule("fine").kernel
    assert original_of(other) is not original_of(one)


@pytest.mark.parametrize("lead", ["", "# moved\n\n"])
def test_a_refusal_stands_where_its_own_text_has_the_step(lead):
    for _ in range(2):
        with pytest.raises(IllegalStep) as refused:
            tilegen.load(lead + TEXT).schedule("wrong")
        assert refused.value.span.line == 9 + lead.count("\n")
