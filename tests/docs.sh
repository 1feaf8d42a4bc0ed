#!/bin/sh
# Runs every `console` block of README.md and the guides, in order and in one folder, and compares
# the output: `...` matches omitted text, `~` a measured number, `[exit N]` a nonzero exit code.
# Needs Python 3, curl and the package bible-kjv. Duration: some minutes; not part of `make test`.
#
#   tests/docs.sh [FILE...]    default: all of them; a guide needs the runs of the guides before it
set -eu
cd "$(dirname "$0")/.."
root=$PWD
PATH=$(cd "${BUILD:-build}" && pwd):$PATH
export PATH
[ $# -gt 0 ] || set -- README.md examples/guides/[0-9]*.md
work=${DOCS_WORK:-$(mktemp -d)}
mkdir -p "$work"
[ -n "${DOCS_WORK:-}" ] || trap 'rm -rf "$work"' EXIT
for entry in "$root"/*; do ln -sfn "$entry" "$work/"; done
cd "$work"
exec python3 tests/docs.py "$@"
