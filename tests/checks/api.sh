#!/bin/sh
# runtime/python/API.md equals the output of runtime/python/api.py; UPDATE=1 writes it. Every public name of the package is on the page.
. "$(dirname "$0")/../begin.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 0; }
page=runtime/python/API.md
python3 runtime/python/api.py >"$work/page" || wrong "runtime/python/api.py fails"
[ -z "${UPDATE:-}" ] || cp "$work/page" $page
diff -u $page "$work/page" || wrong "UPDATE=1 sh tests/checks/api.sh writes $page"
names=$(sed -n 's/^__all__ = \[\(.*\)\]$/\1/p' runtime/python/moec/__init__.py | tr -d '",')
[ -n "$names" ] || wrong "runtime/python/moec/__init__.py has no __all__"
for name in $names; do
    grep -q "^### \`moec\.$name[\`(]" $page || wrong "$page lacks moec.$name"
done
