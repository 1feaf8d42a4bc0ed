"""Runs a notebook with nbclient, for notebook.sh: notebook.py FOLDER, which has small.moe and text."""

import pathlib
import sys

import nbclient
import nbformat

folder = pathlib.Path(sys.argv[1])
spec = (folder / "small.moe").read_text()
sources = [
    "import moec\n%load_ext moec",
    "%%moe small --set train.steps=8\n" + spec,
    "%%moe broken\n" + spec.replace("layers", "layer_s"),
    "run = small.train(data='text', out='a')\nrun",
    "moec.compare('a', small.train(data='text', out='b', seed=2).folder)",
    "moec.Run('b')",
    "moec.load('a')",
]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3",
                        resources={"metadata": {"path": str(folder)}}).execute()


def html_of(cell):
    found = [output.data["text/html"] for output in cell.outputs if output.output_type == "execute_result"]
    assert len(found) == 1, cell.outputs
    return found[0]


_, made, broken, run, compared, other, model = notebook.cells
assert "<b>model small</b>" in html_of(made)
assert "has no option 'layer_s'" in broken.outputs[0].text and len(broken.outputs) == 1, broken.outputs
assert "8 of 8" in html_of(run) and "<polyline" in html_of(run) and "8 of 8" in html_of(other)
assert "<table>" in html_of(compared) and "<svg" in html_of(compared)
assert "<td>embedding</td><td>256 x 8</td>" in html_of(model)
print(f"{len(sources)} cells agree")
