"""The page of `tilegen report` in a real browser: it renders, lines are linked, no request leaves it."""

from __future__ import annotations

import pytest

from tests.support.browser import open_browser
from tests.support.records_of import record
from tests.support.stock import schedule_stock
from tilegen.lab.predict.explain import explain
from tilegen.lab.records.records import line_of
from tilegen.report import Study, read_measured, report
from tilegen.report.code import code_of

pytestmark = pytest.mark.nvrtc

# A path in each direction: a step, the CUDA line that it became, and machine code of that line.
STEP = "cache_shared(A, at=ko)"
CUDA = "A_shared[ti][tj] = A[(bi * TS + ti) * K + ko * TS + tj];"
SASS = "LDG"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    derivation = schedule_stock("gemm", "tiled")
    explained = explain(derivation, {"M": 512, "N": 512, "K": 512}, compiled=False)
    path = tmp_path_factory.mktemp("page") / "report.html"
    lines = "".join(line_of(record(name, ms)) + "\n" for name, ms in (("tiled", 20.0), ("a", 3.0), ("b", 100.0)))
    page = report([Study(derivation, explained, code_of(derivation, "sm_90"))], [read_measured(lines, "run.jsonl")])
    path.write_text(page)
    return path


@pytest.fixture(scope="module")
def browser():
    with open_browser() as found:
        yield found


@pytest.fixture
def page(browser, page_file):
    """The page, opened from its file; what it asks for, and its complaints, are in `page.asked` and `page.said`."""
    opened = browser.new_page(viewport={"width": 1600, "height": 1000})
    opened.asked, opened.said = [], []
    opened.on("request", lambda request: opened.asked.append(request.url))
    opened.on("console", lambda message: opened.said.append(message.text))
    opened.on("pageerror", lambda error: opened.said.append(str(error)))
    opened.goto(page_file.as_uri())
    yield opened
    opened.close()


def line(page, list_name: str, text: str):
    return page.locator(f'ol[aria-label="{list_name}"] li', has_text=text).first


def is_linked(each) -> bool:
    return "linked" in (each.get_attribute("class") or "").split()


def test_a_page_opens_and_asks_for_nothing(page, page_file) -> None:
    assert page.title() == "gemm: tiled"
    assert page.asked == [page_file.as_uri()]
    assert page.said == []
    assert page.locator("h2", has_text="Schedule tiled").is_visible()
    page.wait_for_selector(".js-plotly-plot .main-svg")
    assert page.locator(".js-plotly-plot").count() == page.locator("figure.plot").count() == 3
    assert all(each.bounding_box()["height"] > 100 for each in page.locator(".picture").all())
    assert page.asked == [page_file.as_uri()]
    assert page.said == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # nothing is cut off


def test_pointing_at_a_line_links_schedule_cuda_and_machine_code(page) -> None:
    step, cuda = line(page, "Kernel and schedule", STEP), line(page, "CUDA", CUDA)
    step.hover()
    code = page.locator('ol[aria-label="Machine code"] li.linked')
    assert is_linked(step)
    assert is_linked(cuda)
    assert any(SASS in each for each in code.all_text_contents())
    assert not is_linked(line(page, "CUDA", "B_shared[ti][tj] = B"))
    code.filter(has_text=SASS).first.hover()
    assert is_linked(step)
    assert is_linked(cuda)
    page.mouse.move(0, 0)
    assert page.locator("li.linked").count() == 0


def test_keys_walk_and_hold(page) -> None:
    listing = page.locator('ol[aria-label="CUDA"]')
    listing.focus()
    number = int(line(page, "CUDA", CUDA).get_attribute("id").partition("c")[2])
    for _ in range(number):
        page.keyboard.press("ArrowDown")
    assert is_linked(line(page, "CUDA", CUDA))
    page.keyboard.press("Enter")
    line(page, "CUDA", "__syncthreads").hover()
    assert is_linked(line(page, "Kernel and schedule", STEP))  # held
    page.keyboard.press("Escape")
    assert page.locator("li.linked").count() == 0


def test_columns_of_records_sort_as_numbers(page) -> None:
    table = page.locator("section", has=page.get_by_text("Records of run.jsonl")).locator("table.sortable")
    head = table.locator("th", has_text="ms").first
    names = table.locator("tbody tr td:first-child")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert names.all_text_contents() == ["a", "tiled", "b"]
    head.locator("button").press("Enter")
    assert names.all_text_contents() == ["b", "tiled", "a"]


def test_it_can_be_read_without_scripts(browser, page_file) -> None:
    opened = browser.new_context(java_script_enabled=False).new_page()
    opened.goto(page_file.as_uri())
    for text in (STEP, "predicted ms", "Banks of shared memory"):
        assert opened.get_by_text(text).first.is_visible()
    assert line(opened, "CUDA", CUDA).is_visible()
    assert all(each.bounding_box()["height"] > 100 for each in opened.locator(".picture > svg").all())
    link = line(opened, "CUDA", CUDA).locator("a")
    assert STEP in opened.locator(f'[id="{link.get_attribute("href")[1:]}"]').text_content()


def test_it_is_dark_where_the_user_wants_that(browser, page_file) -> None:
    opened = browser.new_page(color_scheme="dark")
    opened.goto(page_file.as_uri())
    opened.wait_for_selector(".js-plotly-plot .main-svg text")
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 27)"
    assert opened.evaluate("getComputedStyle(document.querySelector('.main-svg text')).fill") == "rgb(232, 232, 232)"
