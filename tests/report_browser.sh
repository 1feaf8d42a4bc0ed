#!/bin/sh
# Installs Playwright into a separate folder (WORK, /tmp/moec_browser), and Chromium unless CHROMIUM names one. Opens a report
# in it; see report_browser.py. Not part of `make test`; checks/report.sh tests the page without a browser.
#
#     tests/report_browser.sh [DIR...]      report of existing runs; default: a small sweep
PACKAGES=${WORK:-/tmp/moec_browser}
SHOTS=${SHOTS:-/tmp/moec_browser/screenshots}
. "$(dirname "$0")/begin.sh"
[ -d "$PACKAGES/playwright" ] || "${PYTHON:-python3}" -m pip install --quiet --target "$PACKAGES" playwright
PYTHONPATH=$PACKAGES
export PYTHONPATH
if [ -z "${CHROMIUM:-}" ] && CHROMIUM=$(command -v chromium); then export CHROMIUM; fi
if [ -z "${CHROMIUM:-}" ]; then unset CHROMIUM && "${PYTHON:-python3}" -m playwright install chromium; fi
if [ $# -eq 0 ]; then
    cat stdlib/*.moe >"$work/text"
    moec sweep tests/report.moe:report --data "$work/text" --out "$work/sweep" >"$work/output" 2>&1 || wrong "$(cat "$work/output")"
    set -- "$work/sweep"
fi
mkdir -p "$SHOTS"
moec report "$@" --out "$work/report.html"
moec compare "$@" --json >"$work/comparison.json"
"${PYTHON:-python3}" tests/report_browser.py "$work/report.html" "$work/comparison.json" "$SHOTS"
