"""Writes the wheel: wheel.py VERSION BUILD. BUILD/package/moec/ contains the command and the library that `make wheel` links.

The wheel has the Python package of runtime/python, these two files, and the shared libraries that they load, except those of the C
library. Its metadata come from runtime/python/pyproject.toml. All times are SOURCE_DATE_EPOCH and files are sorted, so equal inputs
give equal bytes. auditwheel, if it is installed, selects the platform tag; otherwise the tag is linux_ARCHITECTURE."""

import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
import tomllib
import zipfile

PYTHON = pathlib.Path("runtime/python")
# Parts of every Linux system with glibc (PEP 600).
SYSTEM = re.compile(r"^(lib(c|m|dl|rt|pthread|gcc_s)\.so|ld-linux|linux-vdso)")


def loaded(programs):
    """The shared libraries that the programs load, by name."""
    found = {}
    for program in programs:
        text = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
        for name, path in re.findall(r"^\s*(\S+) => (\S+)", text, re.M):
            if path == "not":
                raise SystemExit(f"{program} needs {name}, which is not installed")
            if not SYSTEM.match(name):
                found[name] = pathlib.Path(path)
    return found


def notices(libraries):
    """The copyright files of the Debian packages that the libraries come from."""
    found = {}
    for name, path in libraries.items():
        for candidate in (path, path.resolve(), "/usr" + str(path), "/usr" + str(path.resolve())):
            owner = subprocess.run(["dpkg", "-S", str(candidate)], capture_output=True, text=True).stdout
            text = pathlib.Path("/usr/share/doc") / owner.split(":")[0] / "copyright"
            if owner and text.exists():
                found[name] = text.read_bytes()
                break
        else:
            print(f"wheel: no license text of {name} found", file=sys.stderr)
    return found


def metadata(project, version):
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}", f"Summary: {project['description']}",
             f"License: {project['license']['text']}", f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {one}" for one in project["dependencies"]]
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {one}; extra == '{extra}'" for one in needs]
    readme = (PYTHON / "README.md").read_text()
    return "\n".join(lines) + "\nDescription-Content-Type: text/markdown\n\n" + readme


def write(path, files, info, tag):
    """`files` maps names in the wheel to (bytes, mode)."""
    files = dict(files)
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: moec\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n".encode(), 0o644)
    rows = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
            for name, (data, _) in sorted(files.items())]
    files[f"{info}/RECORD"] = ("\n".join([*rows, f"{info}/RECORD,,", ""]).encode(), 0o644)
    # The first year of a zip file is 1980.
    when = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]
    part = path.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files, key=lambda name: (name.startswith(info), name)):
            data, mode = files[name]
            entry = zipfile.ZipInfo(name, when)
            entry.create_system, entry.external_attr = 3, (0o100000 | mode) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    part.replace(path)


def manylinux(path):
    """The platform tag that auditwheel allows, or None without auditwheel."""
    try:
        shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", str(path)], capture_output=True, text=True)
    except OSError:
        return None
    found = re.search(r'platform tag:\s*"(manylinux\w+)"', re.sub(r"\s+", " ", shown.stdout))
    return found and found[1]


def main(version, build):
    build = pathlib.Path(build)
    made = build / "package" / "moec"
    programs = {"bin/moec": made / "bin/moec", "lib/libmoec.so": made / "lib/libmoec.so"}
    libraries = loaded(programs.values())
    project = tomllib.loads((PYTHON / "pyproject.toml").read_text())["project"]
    info = f"moec-{version}.dist-info"
    files = {f"moec/{name}": (path.read_bytes(), 0o755) for name, path in programs.items()}
    files |= {f"moec/lib/{name}": (path.read_bytes(), 0o755) for name, path in libraries.items()}
    files |= {f"moec/{path.name}": (path.read_bytes(), 0o644) for path in (PYTHON / "moec").glob("*.py")}
    files["moec/include/moec.h"] = (pathlib.Path("runtime/library/moec.h").read_bytes(), 0o644)
    files[f"moec-{version}.data/scripts/moec"] = (pathlib.Path("runtime/package/command.py").read_bytes(), 0o755)
    files[f"{info}/METADATA"] = (metadata(project, version).encode(), 0o644)
    files[f"{info}/licenses/LICENSE"] = (pathlib.Path("LICENSE").read_bytes(), 0o644)
    files |= {f"{info}/licenses/{name}.txt": (text, 0o644) for name, text in notices(libraries).items()}

    local = f"linux_{platform.machine()}"
    path = build / f"moec-{version}-py3-none-{local}.whl"
    for old in build.glob("moec-*.whl"):
        old.unlink()
    write(path, files, info, local)
    tag = manylinux(path)
    if tag:
        path.unlink()
        path = build / f"moec-{version}-py3-none-{tag}.whl"
        write(path, files, info, tag)
    else:
        print("wheel: auditwheel is not installed or names no manylinux tag: the wheel is for systems like this one")
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")


main(*sys.argv[1:])
