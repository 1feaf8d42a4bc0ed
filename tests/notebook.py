"""Objects of the package in a notebook, without one, for checks/notebook.sh: notebook.py SPEC RUN1 RUN2."""

import html.parser
import json
import sys

import moec

spec, first, second = sys.argv[1:]


class Parser(html.parser.HTMLParser):
    """Checks that each tag is closed, and collects the texts of the cells."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells, self.lines = [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        if tag == "td":
            self.cells.append("")
        if tag == "polyline":
            self.lines.append(dict(attributes)["points"])
        self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.cells[-1] += data


def cell_after(cells, name):
    return cells[cells.index(name) + 1]


run = moec.Run(first)
page = Parser(run._repr_html_())
log = [json.loads(line) for line in open(f"{first}/log.jsonl")]
losses = [row["loss"] for row in log if "loss" in row]
assert cell_after(page.cells, "model") == "small" and cell_after(page.cells, "step") == f"{len(losses)} of {len(losses)}"
assert cell_after(page.cells, "loss") == format(losses[-1], ".4g")
assert len(page.lines) == 2 and len(page.lines[0].split()) == len(losses), "the curve lacks points"
assert "http://www.w3.org/2000/svg" in run._repr_html_() and run._repr_html_().count("http") == 1, "it does not work offline"

compared = moec.compare(first, second)
page = Parser(compared._repr_html_())
values = {one["variant"]: one["loss"] for one in compared.result["variants"]}
assert len(values) == 2 and all(cell_after(page.cells, name) == "1" for name in values), page.cells
assert all(format(loss, ".4g") in page.cells for loss in values.values()), page.cells
assert "difference" in repr(compared)


class Shell:
    """What the extension uses of the shell of IPython."""

    def __init__(self):
        self.user_ns = {}

    def register_magic_function(self, function, kind, name):
        assert (kind, name) == ("cell", "moe")
        self.moe = function


shell = Shell()
moec.load_ipython_extension(shell)
text = open(spec).read()
shown = shell.moe("tiny --set dim=16", text)
assert shell.user_ns["tiny"] is shown and "dim=16" in shown.sets
page = Parser(shown._repr_html_())
assert f"{shown.cost['params']['total']:,} total" in cell_after(page.cells, "parameters")
assert shell.moe("", text) is shell.user_ns["spec"] and shell.user_ns["spec"].cost["params"] != shown.cost["params"]
assert shell.moe("broken", text.replace("layers", "layer_s")) is None and "broken" not in shell.user_ns
for wrong in (lambda: shell.moe("--sets dim=16", text), lambda: moec.Run(first + ".none"), lambda: moec.compare()):
    try:
        wrong()
    except ValueError:
        continue
    raise AssertionError("no error")
trained = shown.train(data=spec, out=first + ".cell", steps=2)
assert trained.log[-1]["step"] == 2 and trained.info["model"] == "small"
if hasattr(moec.numpy, "frombuffer"):
    with shown.load() as model:
        page = Parser(model._repr_html_())
        embedding = page.cells.index("embedding")
        assert page.cells[embedding + 1] == "256 x 16" and float(page.cells[embedding + 2]) > 0, page.cells
