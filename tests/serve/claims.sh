#!/bin/sh
# Claims about moec serve on one model per kind of layer (kinds.moe), measured by claims.py. About ten minutes on two cores.
#
#   tests/serve/claims.sh [KIND...]
. "$(dirname "$0")/../begin.sh"
. tests/serve/server.sh
[ $# -gt 0 ] || set -- dense routed window latent recurrent
for kind; do
    echo "$kind:"
    moec init "tests/serve/kinds.moe:$kind" -o "$work/run.safetensors" -q --force
    run=$work/run.safetensors serve "$kind"
    for claim in "company 64 $server" "join 400" "prefix 1000 5.0" "flat $server 2000"; do
        python3 tests/serve/claims.py "$at" $claim || failed=1
    done
    ended "$kind"
done
[ -z "${failed:-}" ]
