"""Runs, comparisons and specs in notebooks: tables and curves as HTML, and the cell magic `%%moe`."""

import html
import json
import math
import os
import pathlib
import shlex
import shutil
import subprocess

from . import arguments as _arguments
from . import training as _training
from .library import Error


def _command():
    """The command of the wheel, of the repository that MOEC_LIBRARY or this file is in, or of PATH."""
    here, library = pathlib.Path(__file__).resolve(), os.environ.get("MOEC_LIBRARY")
    places = [pathlib.Path(library).resolve().parent] if library else []
    places += [here.parent / "bin", *(folder / "build" for folder in here.parents)]
    for place in places:
        if os.access(place / "moec", os.X_OK) and (place / "moec").is_file():
            return str(place / "moec")
    found = shutil.which("moec")
    if not found:
        raise Error("cannot find the command moec: add its folder to PATH")
    return found


def _run(*words, text=None):
    """Standard output of the command; its message as an Error."""
    done = subprocess.run([_command(), *words], input=text, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        raise Error(done.stderr.strip() or f"moec {words[0]} ended with {done.returncode}")
    return done.stdout


def _number(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) and (value != int(value) or abs(value) >= 1e6) else f"{value:.0f}"
    return str(value)


def _table(head, rows):
    cells = lambda kind, row: "".join(f"<{kind}>{html.escape(_number(cell))}</{kind}>" for cell in row)
    return (f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>"
            + "".join(f"<tr>{cells('td', row)}</tr>" for row in rows) + "</tbody></table>")


def _line(points, low, high, last, color):
    scale = lambda step, value: f"{40 + 440 * step / last:.1f},{10 + 130 * (high - value) / (high - low or 1):.1f}"
    return (f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="'
            + " ".join(scale(step, value) for step, value in points) + '"/>')


def _curves(log):
    """Training loss in blue, validation loss in orange, over the steps."""
    curves = [[(row["step"], row[name]) for row in log if isinstance(row.get(name), (int, float))] for name in ("loss", "val_loss")]
    every = [point for curve in curves for point in curve]
    if not every:
        return ""
    low, high, last = min(v for _, v in every), max(v for _, v in every), max(max(s for s, _ in every), 1)
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 490 165" width="490" height="165">'
            '<rect width="100%" height="100%" fill="#fff"/><g font-size="11" font-family="sans-serif" fill="#222">'
            f'<text x="2" y="14">{high:.3g}</text><text x="2" y="144">{low:.3g}</text>'
            f'<text x="40" y="160">step 0 to {last}: loss, validation loss (orange), nats/token</text></g>'
            + _line(curves[0], low, high, last, "#0072b2") + _line(curves[1], low, high, last, "#d55e00") + "</svg>")


class Run:
    """A run directory of `moec train`. In a notebook it shows a table and the curves of the losses.

    - `folder`: the run directory

    Attributes:

    - `info`: dictionary of `run.json`
    - `log`: list of the lines of `log.jsonl` as dictionaries, at the time of the call
    """

    def __init__(self, folder):
        self.folder = os.fsdecode(_arguments.path("folder", folder))
        name = os.path.join(self.folder, "run.json")
        if not os.path.isfile(name):
            raise ValueError(f"folder: expected a run directory, but {name} is not a file")
        with open(name, encoding="utf-8") as file:
            self.info = json.load(file)

    @property
    def log(self):
        """The lines of the log as a list of dictionaries."""
        with open(os.path.join(self.folder, "log.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def __repr__(self):
        return f"moec.Run({self.folder!r})"

    def _repr_html_(self):
        log, info = self.log, self.info
        final = lambda name: next((row[name] for row in reversed(log) if row.get(name) is not None), None)
        start = (info.get("starts") or [{}])[-1]
        rows = [("model", info.get("model")), ("step", f"{_number(final('step') or 0)} of {_number(info.get('steps'))}"),
                ("loss", final("loss")), ("validation loss", final("val_loss")),
                ("bits/byte", final("val_bits_per_byte")), ("seed", info.get("seed")), ("data", info.get("data")),
                ("device", start.get("device"))]
        return (f"<p><b>{html.escape(self.folder)}</b></p>" + _table(("", ""), [row for row in rows if row[1] is not None])
                + _curves(log))


class Comparison:
    """Several runs, compared as by `moec compare`. In a notebook it shows the table and the results of all seeds.

    - `folders`: run directories
    - `baseline`: name of the model to compare with; `None` = the first one

    Attributes:

    - `result`: dictionary of `moec compare --json`
    """

    def __init__(self, *folders, baseline=None):
        words = [os.fsdecode(_arguments.path("folders", folder)) for folder in folders]
        if not words:
            raise ValueError("folders: expected run directories, got none")
        self._words = words + ([] if baseline is None else ["--baseline", _arguments.text("baseline", baseline, 1).decode()])
        self.result = json.loads(_run("compare", *self._words, "--json"))

    def __repr__(self):
        return _run("compare", *self._words)

    def _repr_html_(self):
        metric = self.result["metric"].replace("val_", "")
        rows = [(one["variant"], len(one["runs"]), one.get("loss"), one.get("spread"), one.get("train_loss"), one.get("parameters"),
                 one.get("verdict", "")) for one in self.result["variants"]]
        head = ("variant", "runs", f"validation {metric}", "std", "train loss", "parameters", "verdict")
        return _table(head, rows) + _run("compare", *self._words, "--svg")


class Spec:
    """The text of a spec, checked. In a notebook it shows parameters and cost.

    - `text`: the text
    - `sets`: list of options such as `"train.lr=1e-3"`

    Attributes:

    - `text`, `sets`: the arguments
    - `cost`: dictionary of `moec check --json`
    """

    def __init__(self, text, sets=()):
        self.text, self.sets = _arguments.text("text", text, 1).decode(), [one.decode() for one in _arguments.texts("sets", sets)]
        options = [word for one in self.sets for word in ("--set", one)]
        _run("check", "-", *options, text=self.text)  # for errors as text
        self.cost = json.loads(_run("check", "-", "--json", *options, text=self.text))

    def load(self, **options):
        """Returns `Model(spec=..., **options)`."""
        from . import Model

        return Model(spec=self.text, sets=self.sets, **options)

    def train(self, *, data, out, **options):
        """Trains the model as `moec.train` and returns the `Run`."""
        _training.train(spec=self.text, sets=self.sets, data=data, out=out, **options)
        return Run(out)

    def __repr__(self):
        return f"<moec spec {self.cost['model']}: {self.cost['params']['total']} parameters>"

    def _repr_html_(self):
        params, flops, size = self.cost["params"], self.cost["flops_per_token"], self.cost["bytes"]
        rows = [("parameters", f"{params['total']:,} total, {params['active']:,} activated"),
                ("training", f"{flops['train'] / 1e6:.3g} MFLOP/token"),
                ("KV cache", f"{self.cost['cache_bytes_per_token']:,} B/token"),
                ("memory of training", f"{sum(size.values()) / 1e6:.3g} MB")]
        layers = [(one["path"], one["parameters"], one["flops"]) for one in self.cost["layers"]]
        return (f"<p><b>model {html.escape(self.cost['model'])}</b></p>" + _table(("", ""), rows)
                + _table(("layer", "parameters", "FLOP/token, forward"), layers))


def _model_html(model):
    """The weights of a model: name, shape, standard deviation."""
    rows = []
    with model.lock:
        for name, array in model.parameters.items():
            rows.append((name, " x ".join(map(str, array.shape)), float(array.std()) if array.size else 0.0))
        total = sum(array.size for array in model.parameters.values())
    note = (f"<p>{total:,} parameters, {model.vocabulary} tokens in the vocabulary, batch {model.batch}, "
            f"context {model.context}</p>")
    return note + _table(("weight", "shape", "std"), rows)


def _magic(shell):
    """The function behind `%%moe`."""

    def moe(line, cell):
        """%%moe [NAME] [--set PATH=VALUE ...]: the cell is a spec, checked; NAME (default `spec`) becomes a `moec.Spec`."""
        words, sets, name = shlex.split(line), [], "spec"
        while words:
            word = words.pop(0)
            if word == "--set" and words:
                sets.append(words.pop(0))
            elif word.isidentifier():
                name = word
            else:
                raise ValueError(f"%%moe expects [NAME] [--set PATH=VALUE ...], got {word!r}")
        try:
            spec = Spec(cell, sets)
        except Error as error:
            print(error)  # with the location in the cell, as the command prints it
            return None
        shell.user_ns[name] = spec
        return spec

    return moe
