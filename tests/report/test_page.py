"""The page, read as text and in a real browser."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.makers import config_of, end_run, rising, write_run, write_runs
from turbosvm.report.folder import work_out, write_report
from turbosvm.report.page import LEAST_POINTS, POINTS, figures_of, for_script, page_of
from turbosvm.report.reading import gather

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = "</script><script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'>{{body}}"


def page_text(*places: Path) -> str:
    gathered = gather(places)
    return page_of(work_out(gathered), gathered.notes)


def embedded(text: str) -> list[dict[str, Any]]:
    """The figures that the page's script draws."""
    found = re.search(r'id="figures">(.*?)</script>', text)
    assert found
    figures: list[dict[str, Any]] = json.loads(found[1])
    return figures


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    text = page_text(write_runs(tmp_path / "runs", rounds=10))
    assert "{{" not in text
    assert re.findall(r'(?:src|href)="(?!#|data:,)([^"]*)"', text) == []
    assert "@import" not in text
    assert '<html lang="en">' in text


def test_curves_are_those_of_the_records(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", config_of("turbosvm", seed=0), [0.2, None, 0.4])
    write_run(tmp_path / "runs" / "b", config_of("turbosvm", seed=1), [0.4, None, 0.8])
    (contest,) = embedded(page_text(tmp_path / "runs"))
    charts = {chart["name"]: chart for chart in contest["charts"]}
    (line,) = charts["accuracy"]["lines"]
    assert line == {"group": 0, "x": [1, 3], "mean": [0.3, 0.6], "low": [0.2, 0.4], "high": [0.4, 0.8]}
    assert charts["accuracy"]["targets"] == [0.7]
    assert charts["accuracy-by-bytes"]["lines"][0]["x"] == [7161700, 21485000]
    assert charts["accuracy-by-seconds"]["lines"][0]["x"] == [0.264, 0.792]
    support = charts["support-vectors"]["lines"][0]
    assert (support["mean"], support["low"], support["high"]) == ([7.2] * 3, [4] * 3, [8] * 3)


def test_runs_without_support_vectors_have_no_such_chart(tmp_path: Path) -> None:
    write_run(tmp_path / "run", config_of(), [0.2, 0.4])
    (contest,) = embedded(page_text(tmp_path))
    assert [chart["name"] for chart in contest["charts"]][-1] == "accuracy-by-seconds"


def test_many_lines_are_thinned_and_their_ends_stay(tmp_path: Path) -> None:
    for place in range(40):
        config = config_of("fedavg", client__learning_rate=0.1 + place, rounds=1000)
        write_run(tmp_path / f"run{place}", config, rising("fedavg", place, 1000))
    (contest,) = figures_of(work_out(gather([tmp_path])))
    lines = [line for chart in contest["charts"] for line in chart["lines"]]
    assert len(lines) == 200
    assert {len(line["x"]) for line in lines} == {200}
    assert {(line["x"][0], line["x"][-1]) for line in contest["charts"][0]["lines"]} == {(1, 1000)}
    assert sum(len(line["x"]) for line in lines) <= max(POINTS, LEAST_POINTS * len(lines))
    assert len(contest["first"]) == 14  # the others can be switched on


def test_what_comes_from_configs_is_harmless(tmp_path: Path) -> None:
    config = config_of(HOSTILE, HOSTILE.replace("/", ""), rounds=3, model__name=HOSTILE)
    write_run(tmp_path / "run", config, [0.1, 0.2], {"command": [HOSTILE], "device": HOSTILE})
    text = page_text(tmp_path)
    assert text.count("<script") == 2
    assert "<img" not in text
    assert "{{body}}" in text  # the config's, not the template's
    assert embedded(text)[0]["groups"] == [HOSTILE]
    assert for_script("</script>&") == '"\\u003c/script\\u003e\\u0026"'


def test_configs_environments_and_notes_are_on_the_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", config_of("fedavg", seed=4, client__batch_size=33), [0.1, 0.2])
    end_run(folder, "the disk is full.")
    text = page_text(tmp_path)
    assert "batch_size: 33" in text
    assert "cpu (x86_64)" in text
    assert "turbosvm compare fedavg turbosvm" in text
    assert "fedavg seed 4 stopped. After round 2: the disk is full." in text
    assert "<summary>fedavg, seed 4</summary>" in text
    assert "177 users train, 23 are held out" in text


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    sync_api = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("page")
    write_runs(root / "runs", rounds=60)
    write_run(root / "runs" / "odd", config_of("fedavg", "odd" + HOSTILE.replace("/", ""), rounds=3), [0.1, 0.2, 0.3])
    gathered = gather([root / "runs"])
    write_report(work_out(gathered), gathered.notes, root / "report")
    return (root / "report" / "index.html").as_uri()


@pytest.fixture
def page(browser: "Browser", address: str) -> "Iterator[Page]":
    """The page at a desk, watched: nothing may be asked of the network, and nothing may go wrong."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request", lambda request: wrong.append(request.url) if not request.url.startswith(("file:", "data:")) else None
    )
    page.goto(address)
    page.wait_for_selector(".plot polyline")
    yield page
    assert wrong == []
    assert page.evaluate("window.harmed") is None
    page.close()


CHART = "#contest-0 [data-chart=accuracy]"


def tick_labels(page: "Page") -> list[str]:
    return page.locator(f"{CHART} .x-tick").all_text_contents()


def test_every_chart_is_drawn(page: "Page") -> None:
    assert page.locator("#contest-0 .plot").count() == 6
    assert page.locator(f"{CHART} polyline").count() == 4
    assert page.locator(f"{CHART} .band").count() == 4
    assert tick_labels(page)[0] == "0"


def test_an_algorithm_can_be_hidden_and_shown(page: "Page") -> None:
    button = page.locator("#contest-0 .legend button", has_text="turbosvm")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert page.locator(f"{CHART} polyline").count() == 3
    assert page.locator("#contest-0 [data-chart=loss] polyline").count() == 3
    assert page.locator("#contest-0 [data-chart=support-vectors] polyline").count() == 0
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator(f"{CHART} polyline").count() == 4


def test_the_legend_has_the_colours_of_the_lines(page: "Page") -> None:
    stroke = "(all) => all.map((one) => getComputedStyle(one).stroke)"
    lines = page.locator(f"{CHART} polyline").evaluate_all(stroke)
    assert lines == page.locator("#contest-0 .legend line").evaluate_all(stroke)
    assert len(set(lines)) == 4


def test_pointing_shows_the_values(page: "Page") -> None:
    readout = page.locator(f"{CHART} .readout")
    assert not readout.is_visible()
    box = page.locator(f"{CHART} .plot").bounding_box()
    assert box
    page.locator(f"{CHART} .plot").hover(position={"x": box["width"] - 14, "y": 60})
    assert readout.is_visible()
    lines = readout.inner_text().split("\n")
    assert lines[0] == "Round 60"
    assert {"fedavg", "fedadam", "fedavgm", "turbosvm"} <= set(lines)
    expected = sum(rising("turbosvm", seed, 60)[-1] or 0 for seed in range(3)) / 3
    assert f"{100 * expected:.1f}%" in lines
    page.mouse.move(0, 0)
    assert not readout.is_visible()


def test_dragging_zooms_and_reset_shows_all(page: "Page") -> None:
    before = tick_labels(page)
    plot = page.locator(f"{CHART} .plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box
    page.mouse.move(box["x"] + 200, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 90, steps=4)
    assert page.locator(f"{CHART} .choice").count() == 1
    page.mouse.up()
    zoomed = tick_labels(page)
    assert zoomed != before
    assert "0" not in zoomed
    page.locator(f"{CHART} button", has_text="Reset").click()
    assert tick_labels(page) == before


def test_the_keyboard_reads_and_zooms(page: "Page") -> None:
    plot, before = page.locator(f"{CHART} .plot"), tick_labels(page)
    plot.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    spoken = page.locator(f"{CHART} .spoken").text_content() or ""
    assert spoken.startswith("Round 3, ")
    assert "fedavg" in spoken
    page.keyboard.press("+")
    assert tick_labels(page) != before
    page.keyboard.press("0")
    assert tick_labels(page) == before


def test_screen_readers_find_names(page: "Page") -> None:
    assert page.evaluate("document.documentElement.lang") == "en"
    label = page.locator(f"{CHART} .plot").get_attribute("aria-label") or ""
    assert label.startswith("Accuracy on held-out users over round, curves of fedavg, fedadam, fedavgm, turbosvm")
    assert page.locator("button:not([aria-label]):not([aria-pressed])").count() == 0
    assert page.locator("table caption").count() == page.locator("table").count() >= 3
    assert page.locator("thead th:not([scope=col]), tbody th:not([scope=row])").count() == 0


@pytest.mark.parametrize("width", [320, 360, 768])
def test_nothing_is_wider_than_the_screen(page: "Page", width: int) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    drawn = f"document.querySelector('{CHART} .plot').viewBox.baseVal.width"
    for _ in range(100):  # playwright's own waiting evaluates text, which the page forbids
        if page.evaluate(drawn) < width:
            break
        page.wait_for_timeout(50)
    assert page.evaluate(drawn) < width
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_dark_mode(page: "Page") -> None:
    colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    assert page.evaluate(colours) == ["rgb(255, 255, 255)", "rgb(27, 31, 36)"]
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(colours) == ["rgb(20, 23, 28)", "rgb(232, 234, 237)"]


def test_print(page: "Page") -> None:
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 720, "height": 1000})
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(f"{CHART} button").first.is_visible()
    assert page.locator(f"{CHART} polyline").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 720
    assert page.pdf().startswith(b"%PDF")


def test_configs_are_folded_away_until_asked_for(page: "Page") -> None:
    block = page.locator("#contest-0 pre").first
    assert not block.is_visible()
    page.locator("#contest-0 > details > summary", has_text="Configs").click()
    page.locator("#contest-0 details details > summary", has_text="fedavg, seeds 0, 1 and 2").click()
    assert "name: fedavg" in block.inner_text()
