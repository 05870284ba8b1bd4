"""Pages in a real browser: the system's Chromium, driven by playwright."""

import shutil
import time
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from flatpc.pages.demo import run

from .cases import everything

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name)) is not None), None)
OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--disable-background-networking", "--disable-component-update", "--no-first-run",
)  # fmt: skip
PATIENCE = 120_000
"""Milliseconds: without a graphics card, and with other tests beside it, a surface can take a while."""


@pytest.fixture(scope="module")
def browser() -> Iterator:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e '.[dev]'")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: .ci/install-chromium installs it")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    return {"everything": everything().write(folder / "everything.html"), "demo": run(folder / "demo", quick=True)}


@pytest.fixture
def visit(browser, paths):
    """Opens a page; at the end there must have been no error, and no request that leaves the page."""
    complaints, contexts = [], []

    def open_page(name, *, width=1280, scheme="light", anchor=""):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "data:", "blob:")) or complaints.append(request.url))
        page.goto(paths[name].as_uri() + anchor)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def selected(page):
    """The name of the selected tab, and what panels are shown."""
    tabs = page.locator('[role="tab"][aria-selected="true"]').all_inner_texts()
    return tabs, [panel.get_attribute("id") for panel in page.locator('[role="tabpanel"]').all() if panel.is_visible()]


def wait_for_drawing(page, plot):
    plot.scroll_into_view_if_needed()
    page.wait_for_function("plot => plot.querySelector('.main-svg') !== null", arg=plot.element_handle())


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("everything", 1280, "dark"), ("everything", 400, "light"), ("demo", 1280, "light"), ("demo", 400, "dark")],
)
def test_every_tab_draws_and_fits(visit, name, width, scheme):
    """Every figure of every tab is drawn, at the width of its box, and nothing sticks out of the page."""
    page = visit(name, width=width, scheme=scheme)
    for tab in page.locator('[role="tab"]').all():
        tab.click()
        for plot in page.locator(".plot:visible").all():
            wait_for_drawing(page, plot)
            sizes = plot.evaluate("plot => [plot.clientWidth, plot.querySelector('.main-svg').clientWidth]")
            assert sizes[0] == sizes[1] > 250
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_tabs_by_click_and_by_keyboard(visit):
    page = visit("everything")
    assert selected(page) == (["Numbers"], ["numbers"])
    page.get_by_role("tab", name="Shapes").click()
    assert selected(page) == (["Shapes"], ["shapes"])
    assert page.url.endswith("#shapes")
    for key, name in {"ArrowRight": "Pictures", "ArrowLeft": "Shapes", "End": "Pictures", "Home": "Numbers"}.items():
        page.keyboard.press(key)
        assert selected(page) == ([name], [name.lower()])
        assert page.evaluate("document.activeElement.textContent") == name
    page.keyboard.press("ArrowLeft")  # round the corner
    assert selected(page)[0] == ["Pictures"]
    stops = page.locator('[role="tab"][tabindex="0"]')
    assert stops.all_inner_texts() == ["Pictures"]  # the others are reached by arrows


def test_addresses_open_tabs_and_back_goes_back(visit):
    page = visit("everything", anchor="#pictures")
    assert selected(page)[0] == ["Pictures"]
    page.get_by_role("tab", name="Numbers").click()
    page.go_back()
    assert selected(page)[0] == ["Pictures"]
    page.get_by_role("link", name="the shapes").click()  # a heading inside another tab
    assert selected(page)[0] == ["Shapes"]
    assert page.locator("h2#shapes-two-surfaces").is_visible()
    assert selected(visit("everything", anchor="#nowhere"))[0] == ["Numbers"]


def test_figures_are_drawn_when_they_come_into_view(visit):
    page = visit("everything")
    assert page.locator(".plot .main-svg").count() == 0
    page.get_by_role("tab", name="Shapes").click()
    page.wait_for_selector(".plot .main-svg")


def test_no_button_sends_the_data_away(visit):
    page = visit("everything", anchor="#shapes")
    line = page.get_by_label("A line")
    wait_for_drawing(page, line)
    titles = line.locator(".modebar-btn").evaluate_all("buttons => buttons.map(button => button.dataset.title)")
    assert titles == ["Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Autoscale", "Reset axes"]


TWO_SCENES = "[...document.querySelectorAll('.plot')].filter(plot => plot._fullLayout?.scene?._scene?.glplot).length >= 2"
EYES = """() => [...document.querySelectorAll('.plot')].filter(plot => plot._fullLayout?.scene)
    .map(plot => plot._fullLayout.scene._scene.getCamera().eye)"""


def eyes(page):
    """Where each scene is seen from."""
    return page.evaluate(EYES)


def apart(one, other):
    return np.linalg.norm([one[axis] - other[axis] for axis in "xyz"])


def drag(page, plot):
    """Turns a scene; without a graphics card it may be too busy to notice, so that a reader would try again."""
    before = eyes(page)[0]
    for _ in range(5):
        box = plot.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 60, y + 20, steps=4)
        page.mouse.up()
        if wait_until(page, lambda: apart(eyes(page)[0], before) > 0.1, seconds=PATIENCE / 5000):
            return
    pytest.fail(f"the scene is still seen from {before}")


def wait_until(page, happened, *, seconds):
    """Asks from outside, as a page that is busy drawing may have no frame to ask in."""
    end = time.monotonic() + seconds
    while not (so := happened()) and time.monotonic() < end:
        page.wait_for_timeout(100)
    return so


@pytest.mark.parametrize(("name", "tab"), [("everything", "Shapes"), ("demo", "Spiral")])
def test_surfaces_turn_together(visit, name, tab):
    page = visit(name)
    page.get_by_role("tab", name=tab).click()
    scenes = page.locator(".figures[data-linked] .plot:visible")
    for scene in scenes.all():
        wait_for_drawing(page, scene)
    page.wait_for_function(TWO_SCENES)
    before = eyes(page)
    assert len(before) == 2
    assert before[0] == before[1]
    drag(page, scenes.first)
    assert wait_until(page, lambda: apart(*eyes(page)) < 1e-6, seconds=PATIENCE / 1000)
    assert apart(eyes(page)[1], before[1]) > 0.1


FLICK = """() => {
    const canvas = document.querySelector('.figures[data-linked] .plot .gl-container canvas');
    const box = canvas.getBoundingClientRect();
    const send = (type, dx, buttons) => canvas.dispatchEvent(new MouseEvent(type, {
        bubbles: true, clientX: box.left + box.width / 2 + dx, clientY: box.top + box.height / 2, buttons, view: window }));
    const busy = (time) => { const end = performance.now() + time; while (performance.now() < end); };
    send('mousemove', 0, 0);
    send('mousedown', 0, 1);
    for (const dx of [15, 30, 45, 60]) { busy(20); send('mousemove', dx, 1); }
    send('mouseup', 60, 0);
    busy(300);
}"""
"""A quick drag on a busy page: no frame is drawn before its end, and the scene turns on after it."""


def test_surfaces_turn_together_after_a_flick(visit):
    page = visit("everything", anchor="#shapes")
    page.wait_for_function(TWO_SCENES)
    before = eyes(page)[0]
    page.evaluate(FLICK)
    page.wait_for_timeout(1000)
    assert eyes(page)[0] != before
    assert wait_until(page, lambda: apart(*eyes(page)) < 1e-6, seconds=PATIENCE / 1000)


def test_a_surface_comes_back_as_it_was_left(visit):
    """Out of sight it gives its graphics memory back; the view that the reader chose stays."""
    page = visit("everything")
    page.get_by_role("tab", name="Shapes").click()
    scene = page.locator(".figures[data-linked] .plot").first
    page.wait_for_function(TWO_SCENES)
    drag(page, scene)
    assert wait_until(page, lambda: (page.wait_for_timeout(500), apart(*eyes(page)))[1] < 1e-6, seconds=PATIENCE / 1000)
    left = eyes(page)[0]
    page.get_by_role("tab", name="Numbers").click()
    page.wait_for_function("document.querySelectorAll('.plot canvas').length === 0")
    page.get_by_role("tab", name="Shapes").click()
    page.wait_for_selector(".plot .gl-container canvas")
    assert eyes(page)[0] == pytest.approx(left)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_surfaces_have_colours(visit, scheme, tmp_path):
    """A scene that failed to draw is a plain rectangle."""
    page = visit("everything", scheme=scheme)
    page.get_by_role("tab", name="Shapes").click()
    page.wait_for_selector(".plot .gl-container canvas")

    def colours():
        page.locator(".plot").first.screenshot(path=tmp_path / "scene.png")
        pixels = np.asarray(Image.open(tmp_path / "scene.png").convert("RGB")).reshape(-1, 3)
        return len(np.unique(pixels, axis=0))

    assert wait_until(page, lambda: colours() > 500, seconds=PATIENCE / 1000)


def test_colours_follow_the_scheme(visit):
    page = visit("everything", anchor="#shapes")
    line = page.get_by_label("A line")
    wait_for_drawing(page, line)
    look = "plot => [getComputedStyle(document.body).backgroundColor, plot._fullLayout.font.color]"
    light = line.evaluate(look)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("([plot, was]) => plot._fullLayout.font.color !== was", arg=[line.element_handle(), light[1]])
    dark = line.evaluate(look)
    assert (light[0], light[1]) == ("rgb(251, 251, 250)", "#1d2433")
    assert (dark[0], dark[1]) == ("rgb(20, 23, 29)", "#e6e9ef")


def test_figures_follow_the_width(visit):
    page = visit("everything", anchor="#shapes")
    line = page.get_by_label("A line")
    wait_for_drawing(page, line)
    page.set_viewport_size({"width": 400, "height": 900})
    page.wait_for_function(
        "plot => plot.clientWidth < 400 && plot.querySelector('.main-svg').clientWidth === plot.clientWidth",
        arg=line.element_handle(),
    )


def test_tables_sort(visit):
    page = visit("everything")
    table = page.get_by_role("region", name="A small table")
    first = table.locator("tbody tr > :first-child")
    head = table.get_by_role("columnheader", name="NLL")
    assert first.all_inner_texts() == ["plain", "flat", "flatter"]
    head.get_by_role("button").click()
    assert first.all_inner_texts() == ["flatter", "flat", "plain"]  # -1.0, 9.5, 10.0: as numbers
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").click()
    assert first.all_inner_texts() == ["plain", "flat", "flatter"]
    table.get_by_role("columnheader", name="model").get_by_role("button").click()
    assert first.all_inner_texts() == ["flat", "flatter", "plain"]
    assert head.get_attribute("aria-sort") is None


def test_wide_tables_scroll_in_their_own_box(visit):
    page = visit("everything", width=400)
    inner, outer = page.get_by_role("region", name="A wide table").evaluate("box => [box.scrollWidth, box.clientWidth]")
    assert inner > outer
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_long_texts_are_broken_into_lines(visit):
    page = visit("everything")
    inner, outer = page.get_by_role("region", name="Claims").evaluate("box => [box.scrollWidth, box.clientWidth]")
    assert inner <= outer


def test_data_can_be_saved(visit):
    page = visit("everything")
    with page.expect_download() as download:
        page.get_by_role("link", name="wide.csv").click()
    assert download.value.suggested_filename == "wide.csv"
    assert download.value.path().read_text().startswith("set,1% paper,1% ours")
