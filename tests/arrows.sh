#!/bin/sh
# tests/arrows.sh [ROOT]: every include of compiler/ and runtime/ that goes against the direction of the arrows, with file and
# line. A folder may include itself and what stands before it in its list; a printer of codegen/ nothing of another one; only the
# files beside the driver include calls/. The compiler may include of the runtime only what both sides share, abi/. Exits 1 when there is one.
cd "${1:-$(dirname "$0")/..}" || exit 2
find compiler runtime -name '*.[chly]' ! -path 'runtime/kernels/*' ! -path 'runtime/device/sim/*' ! -path 'runtime/standalone/*' |
    sort | xargs grep -n '^#include "' |
    awk -F: '
        BEGIN {
            count = split("base syntax layout ir analysis elaborate editor interpret transform schedule loop module codegen calls explain describe experiment", order, " ")
            for (i = 1; i <= count; i++) rank["compiler/" order[i]] = i
            count = split("abi base data tokenizer device model training library tools/exchange tools/experiment tools/report tools/lsp tools/server tools/command", order, " ")
            for (i = 1; i <= count; i++) rank["runtime/" order[i]] = i
        }
        function folder(path, parts) { split(path, parts, "/"); return parts[1] "/" parts[2] (parts[2] == "tools" ? "/" parts[3] : "") }
        function printer(path, parts) { split(path, parts, "/"); return parts[2] == "codegen" && parts[4] ? parts[3] : "" }
        {
            side = $1; sub("/.*", "", side)
            target = $3; sub(/^#include "/, "", target); sub(/".*/, "", target)
            from = folder($1)
            why = ""
            if (target !~ "/") next                      # beside the driver, or a public header
            if (side == "compiler" && target ~ "^abi/") next
            to = folder(side "/" target)
            if (!(to in rank)) why = "includes what is in no folder of " side
            else if ((from in rank) && rank[to] > rank[from]) why = "includes upward, of " to
            else if (printer($1) && printer(side "/" target) && printer($1) != printer(side "/" target))
                why = "includes another printer"
            else if (to == "compiler/calls" && from != to && from in rank) why = "includes the rows of calls"
            if (why) { print $1 ":" $2 ": " why ": " target; wrong = 1 }
        }
        END { exit wrong }'
