#!/bin/sh
# Only abi/json_make.h creates JSON: the functions of jansson return NULL for text that is not UTF-8. A text in a message is cut
# at a character boundary (abi/utf8_cut.h).
. "$(dirname "$0")/../begin.sh"
sources() { find compiler runtime -name '*.[chly]' ! -path 'runtime/kernels/*' ! -path 'runtime/device/sim/*' ! -path 'runtime/standalone/*'; }
sources | grep -vE "json_(make|values)\.[ch]$" | xargs grep -nE '\bjson_(pack|string|dumps)\(' >"$work/found" &&
    wrong "use json_make, json_text or json_write: $(cat "$work/found")"
sources | xargs grep -nE '%\.[0-9]+s' >"$work/found" && wrong "use %.*s with utf8_cut: $(cat "$work/found")"
exit 0
