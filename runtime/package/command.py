#!python
"""The command `moec` of the wheel, without an import of the package and of NumPy."""
import importlib.util
import runpy

folder = importlib.util.find_spec("moec").submodule_search_locations[0]
runpy.run_path(folder + "/compiler.py", run_name="__main__")
