"""The C compiler of the package ziglang, for machines without `cc`; as a program: the command of the wheel."""

import importlib.util
import os
import shutil
import sys


def find():
    """Adds the folder of ziglang to the end of PATH, where moec looks for `zig` if there is no `cc`."""
    if os.environ.get("MOEC_CC") or shutil.which("cc") or shutil.which("zig"):
        return
    package = importlib.util.find_spec("ziglang")
    if package:
        os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), package.submodule_search_locations[0]])


if __name__ == "__main__":
    find()
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "moec")
    os.execv(program, ["moec", *sys.argv[1:]])
