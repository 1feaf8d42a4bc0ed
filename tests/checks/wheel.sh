#!/bin/sh
# make wheel: two wheels are equal files; the installed command and library train and generate; without `cc` the command uses
# Zig's compiler, on PATH or from the package ziglang, and otherwise names both remedies.
. "$(dirname "$0")/../begin.sh"
python=
for candidate in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! $candidate -c 'import tomllib' 2>/dev/null || python=$candidate
done
[ -n "$python" ] && [ -e "$BUILD/libmoec.so" ] || { echo "no Python 3.11, or no libmoec.so in $BUILD"; exit 0; }
make -s -o all wheel BUILD="$BUILD" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
first=$(echo "$BUILD"/moec-*.whl)
cp "$first" "$work"
make -s -o all wheel BUILD="$BUILD" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
cmp "$BUILD"/moec-*.whl "$work"/moec-*.whl || wrong "the second wheel differs"

# As pip installs it: the folder of a data script becomes bin/, its first line names the interpreter.
$python - "$first" "$work/site" <<'END'
import base64, csv, hashlib, io, os, sys, zipfile
archive, site = zipfile.ZipFile(sys.argv[1]), sys.argv[2]
names = archive.namelist()
record = next(name for name in names if name.endswith("/RECORD"))
rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
assert sorted(row[0] for row in rows) == sorted(names), "RECORD lists other files"
for name, digest, size in rows:
    if digest:
        data = archive.read(name)
        made = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert digest == "sha256=" + made and int(size) == len(data), name
for entry in archive.infolist():
    os.chmod(archive.extract(entry, site), entry.external_attr >> 16 & 0o777)
metadata = archive.read(record.replace("RECORD", "METADATA")).decode()
assert "Requires-Dist: ziglang" in metadata and "Requires-Dist: numpy" in metadata, metadata
END
run() { PYTHONPATH=$work/site $python "$work"/site/moec-*.data/scripts/moec "$@"; }
[ "$(run --version | cut -d' ' -f1,2)" = "$(moec --version | cut -d' ' -f1,2)" ] || wrong "the command prints $(run --version)"
for name in libgomp libjansson libpcre2-8 libutf8proc; do
    ldd "$work/site/moec/bin/moec" "$work/site/moec/lib/libmoec.so" | grep "$name" | grep -vq "$work/site/moec" && wrong "$name is not that of the wheel"
    ls "$work"/site/moec/lib/$name.so.* >/dev/null || wrong "the wheel has no $name"
    ls "$work"/site/*.dist-info/licenses/$name.so.*.txt >/dev/null || wrong "the wheel has no license of $name"
done

small_model 2
unset MOEC_CC
run train "$work/small.moe" --data "$work/text" --out "$work/run" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
run generate "$work/run" --prompt x -n 4 --temperature 0 >"$work/text1" 2>"$work/log" || wrong "$(cat "$work/log")"
if $python -c 'import numpy' 2>/dev/null; then
    PYTHONPATH=$work/site $python -c '
import moec, sys
assert moec.library.shared._name.startswith(sys.argv[1]), moec.library.shared._name
print(moec.load(sys.argv[2]).generate("x", tokens=4, temperature=0), end="")' "$work/site" "$work/run" >"$work/text2" || wrong "the package fails"
else
    echo "no NumPy: the Python package was not loaded"
fi

# A PATH without cc: Python alone, then with a command `zig` that calls gcc, in a folder of PATH and as the package ziglang.
real=$(command -v "${CC:-cc}") interpreter=$($python -c 'import sys; print(sys.executable)')
mkdir "$work/bin" "$work/zig" "$work/other" "$work/other/ziglang"
ln -s "$interpreter" "$work/bin/python3"
alone() {
    XDG_CACHE_HOME=$work/cache$1 PATH=$2 PYTHONPATH=$work/site:$3 "$interpreter" "$work"/site/moec-*.data/scripts/moec \
        train "$work/small.moe" --data "$work/text" --out "$work/run$1" >"$work/log" 2>&1
}
! alone 1 "$work/bin" "" || wrong "training works without a compiler"
grep -q 'no C compiler found: cc' "$work/log" && grep -q 'pip install ziglang' "$work/log" || wrong "$(cat "$work/log")"
# Like Zig, this command knows no OpenMP.
cat >"$work/zig/zig" <<END
#!/bin/sh
echo "\$*" >>"$work/calls"
[ "\$1" = cc ] || exit 2
shift
case "\$*" in *-fopenmp*) exit 1 ;; esac
PATH=/usr/bin:/bin exec $real "\$@"
END
chmod +x "$work/zig/zig"
cp "$work/zig/zig" "$work/other/ziglang"
: >"$work/other/ziglang/__init__.py"
for way in 2 3; do
    rm -f "$work/calls"
    if [ $way = 2 ]; then alone 2 "$work/bin:$work/zig" "" || wrong "$(cat "$work/log")"; else alone 3 "$work/bin" "$work/other" || wrong "$(cat "$work/log")"; fi
    grep -q '^cc .*program' "$work/calls" || wrong "zig cc was not used: $(cat "$work/calls")"
    grep -q 'zig cc has no OpenMP' "$work/log" || wrong "no note about OpenMP: $(cat "$work/log")"
done
