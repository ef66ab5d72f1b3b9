"""Members whose copies want rows of whole vectors are for sizes that have them, if other members serve the rest."""

from tilegen import api


def facts(text: str) -> list[list[str]]:
    """What each member of the text's family wants of the sizes."""
    return [[fact.text for fact in each.facts] for each in api.from_text(text).kernel().family("h100").candidates]


COPIES = """\
kernel product(A: bf16[M, K], B: bf16[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))

schedule copied for product:
    tile(i, 16) -> bi, ti
    tile(k, 32) -> ko, ki
    order(bi, j, ko, ti, ki)
    bind(bi, block.x)
    bind(ti, thread.x)
    cache_register(C, at=j)
    cache_shared(A, at=ko, vector=8) -> As
    pipeline(ko, 2)

schedule plain for product:
    bind(i, block.x)

family fast for product:
    copied
"""


def test_a_thread_copies_vectors_ahead_where_rows_have_whole_ones_if_another_member_serves_the_rest() -> None:
    assert facts(COPIES) == [[]]
    assert facts(COPIES + "    plain\n") == [["K % 8 == 0"], []]


STORES = """\
kernel product(A: bf16[M, K], B: bf16[N, K]) -> C: bf16[M, N]:
    var P: f32[M, N]
    P[i, j] = sum[k](f32(A[i, k]) * f32(B[j, k]))
    C[i, j] = bf16(P[i, j])

schedule boxes for product extends hgemm.whole_tiles

schedule threads for product extends hgemm.transposed_padded

schedule padded_boxes for product extends hgemm.transposed_padded_dealt:
    after swizzle(Cs):
        bulk(Cs)

family fast for product:
    boxes
"""


def test_results_are_copied_in_bulk_where_rows_have_whole_vectors_if_another_member_serves_the_rest() -> None:
    assert facts(STORES + "    threads\n") == [["K % 8 == 0", "N % 8 == 0"], []]
    assert facts(STORES + "    padded_boxes\n") == [["K % 8 == 0"], []]
