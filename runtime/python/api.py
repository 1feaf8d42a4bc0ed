"""Writes API.md from the docstrings of the package: python3 runtime/python/api.py > runtime/python/API.md"""

import ast
import pathlib

HEAD = """# Python API

`pip install ./runtime/python` after `make` installs the package `moec`. The [README](README.md) has examples, and
[moec.h](../library/moec.h) is the same interface in C. The [compatibility rules](../CHANGELOG.md#compatibility) apply. This page
is written by `runtime/python/api.py` from the docstrings, and `help(moec)` prints them.
"""
PACKAGE = pathlib.Path(__file__).parent / "moec"


def signature(name, function):
    """The call of a function, without self and with the defaults."""
    arguments = function.args
    arguments.args = [argument for argument in arguments.args if argument.arg != "self"]
    return f"{name}({ast.unparse(arguments)})"


def documented(node, name):
    text = ast.get_docstring(node)
    if not text:
        raise SystemExit(f"{name} has no docstring")
    return text


def entry(title, text):
    return f"\n### {title}\n\n{text}\n"


def class_entries(node, prefix):
    """The class with the arguments of its constructor, then its public methods."""
    methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
    start = next((item for item in methods if item.name == "__init__"), None)
    name = prefix + node.name
    yield entry(f"`{signature(name, start) if start else name}`", documented(node, name))
    for method in methods:
        if not method.name.startswith("_"):
            full = f"{node.name}.{method.name}"
            yield entry(f"`{signature(full, method)}`", documented(method, full))


def module_entries(file, prefix):
    for node in ast.parse((PACKAGE / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and prefix:
            yield entry(f"`{signature(prefix + node.name, node)}`", documented(node, node.name))
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from class_entries(node, prefix)


def error_entry():
    tree = ast.parse((PACKAGE / "library.py").read_text(encoding="utf-8"))
    node = next(item for item in tree.body if isinstance(item, ast.ClassDef) and item.name == "Error")
    return entry("`moec.Error`", documented(node, "Error"))


def page():
    yield HEAD
    for title, files in [("moec", ["__init__.py", "training.py", "notebook.py"]), ("moec.torch", ["torch.py"])]:
        text = documented(ast.parse((PACKAGE / files[0]).read_text(encoding="utf-8")), files[0])
        yield f"\n## {title}\n\n{text}\n"
        for file in files:
            yield from module_entries(file, title + ".")
        if title == "moec":
            yield error_entry()
            yield entry("`moec.__version__`", "Version of the package, as text.")


if __name__ == "__main__":
    print("".join(page()), end="")
