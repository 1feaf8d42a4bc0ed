"""A page of `moec emit --target web` in headless Chromium, opened as a file without a network: see web.sh.

    browser.py PAGE PROMPT COUNT TEMPERATURE SEED     writes the text; tokens/s on stderr
"""
import os
import sys

from playwright.sync_api import sync_playwright

path, prompt, count, temperature, seed = sys.argv[1:]
address = "file://" + os.path.abspath(path)
requests, problems = [], []
with sync_playwright() as play:
    browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"])
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    page.wait_for_selector("#start:enabled", timeout=60000)
    for name, value in (("prompt", prompt), ("count", count), ("temperature", temperature), ("seed", seed)):
        page.fill(f"#{name}", value)
    page.click("#start")
    page.wait_for_selector("#start:enabled", timeout=120000)
    status = page.inner_text("#status")
    sys.stdout.write(page.evaluate("document.getElementById('text').textContent"))
    print(status, file=sys.stderr)
    browser.close()
others = [one for one in requests if one != address and not one.startswith("blob:")]
assert not others, others
assert not problems, problems
assert "tokens/s" in status, status
