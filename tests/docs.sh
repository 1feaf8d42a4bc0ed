#!/bin/sh
# Runs every `console` block of README.md and of the guides, in order and in one folder, and compares the output: `...` matches
# omitted text, `~` a measured number, `[exit N]` an exit code other than 0. Takes some minutes; not part of `make test`. Needs Python 3 and the package bible-kjv.
#
#   tests/docs.sh [FILE...]      default: README.md and examples/guides/*.md; a guide needs the runs of those before it
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
