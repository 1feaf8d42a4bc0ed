"""A report in headless Chromium: see report_browser.sh.

    report_browser.py PAGE JSON FOLDER      the page, the output of `moec compare --json`, the folder for screenshots
"""
import json
import os
import sys

from playwright.sync_api import sync_playwright

page_path, json_path, folder = sys.argv[1:]
with open(json_path) as file:
    comparison = json.load(file)
problems, requests = [], []


def watch(page):
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))


def check_numbers(page):
    """The losses of the table equal those of the JSON."""
    head = page.locator("#comparison table").first.locator("thead th").all_inner_texts()
    rows = page.locator("#comparison table").first.locator("tbody tr").all()
    assert len(rows) == len(comparison["variants"])
    for row, variant in zip(rows, comparison["variants"]):
        cells = [row.locator("th").inner_text(), *row.locator("td").all_inner_texts()]
        assert len(cells) == len(head) and cells[0] == variant["variant"]
        loss = "–" if variant["loss"] is None else f"{variant['loss']:.5f}"
        assert cells[2] == loss, (cells, loss)
        difference = variant.get("difference")
        if difference and difference["mean"] is not None:
            assert cells[4].startswith(f"{difference['mean']:+.5f}".replace("-", "−")), cells
            assert cells[7].startswith(difference["verdict"]), cells


def check_loads(page):
    """The chart of the expert load shows the log of the first seed."""
    for variant in comparison["variants"]:
        with open(os.path.join(variant["runs"][0]["folder"], "log.jsonl")) as log:
            lines = [json.loads(line) for line in log if "val_expert_load.layer" in line]
        for layer, loads in enumerate(lines[-1]["val_expert_load.layer"] if lines else []):
            shown = page.evaluate("([name, layer]) => byName.get(name).values.val_expert_load.layers[layer].map((one) => one[one.length - 1])",
                                  [variant["variant"], str(layer)])
            assert shown == loads, (variant["variant"], layer, shown, loads)
            assert page.get_by_role("img", name=f"expert_load, layer {layer}", exact=True).count() == 1


def check_use(page):
    """Controls, the linked cursor by mouse and keyboard, options."""
    for value in ("flops", "time", "step", "tokens"):
        page.select_option("#against", value)
    page.locator("#smoothing").fill("0.5")
    page.locator("#seeds").check()
    page.locator("#seeds").uncheck()
    page.locator("#logarithmic").check()
    page.locator("#logarithmic").uncheck()
    page.locator("#all_options").check()
    assert page.locator("#specs tbody tr").count() > 10
    page.locator("#all_options").uncheck()
    for name in page.locator("#graph_model option").all_inner_texts():
        page.select_option("#graph_model", name)
        drawn = page.evaluate("graph_picture.shadowRoot.querySelector('svg').getBoundingClientRect().height")
        assert drawn > 100, (name, drawn)
    for name in page.locator("#probe_model option").all_inner_texts():
        page.select_option("#probe_model", name)
    assert page.get_by_text("first_token_attention, by layer").count() == page.get_by_text("first_token_attention, mean of the layers").count()
    canvas = page.locator("#curves canvas").first
    canvas.focus()
    for key in ("ArrowRight", "ArrowRight", "End", "ArrowLeft"):
        page.keyboard.press(key)
    linked = page.evaluate("[charts.filter((one) => one.linked).length, charts.filter((one) => one.chart.getActiveElements().length).length, cursor]")
    assert linked[0] > 1 and linked[0] == linked[1] and linked[2] is not None, linked
    page.keyboard.press("Escape")
    assert page.evaluate("cursor") is None
    canvas.hover()
    page.wait_for_timeout(200)
    assert page.evaluate("cursor") is not None
    assert page.evaluate("charts.filter((one) => one.linked && one.chart.tooltip.opacity > 0).length") == 1, "no tooltip under the mouse"
    page.mouse.move(0, 0)


def shoot(page, name):
    page.screenshot(path=os.path.join(folder, f"{name}.png"), full_page=True)


with sync_playwright() as play:
    browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"])
    for width in (390, 820, 1440):
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            watch(page)
            page.goto(f"file://{os.path.abspath(page_path)}")
            check_numbers(page)
            check_loads(page)
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert over <= 0, f"{width} wide: {over} pixels too many"
            shoot(page, f"{width}_{scheme}")
            if width == 1440 and scheme == "light":
                check_use(page)
                page.emulate_media(media="print")
                page.pdf(path=os.path.join(folder, "print.pdf"), format="A4")
            page.close()
    browser.close()
others = [url for url in requests if not url.startswith(("file://", "data:"))]
assert not problems, problems
assert not others and len([url for url in requests if url.startswith("file://")]) == 6, requests
print(f"{page_path}: three widths, light and dark, no problem and no request; screenshots in {folder}")
