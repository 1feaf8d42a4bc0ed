# Common parts of the checks of `moec serve`; sourced after tests/begin.sh, with a run in $run or $work/run.
command -v curl >/dev/null || wrong "curl is not installed"

# serve NAME OPTION...: starts a server with those options; its process is $server, its address $at.
serve() {
    name=$1
    shift
    rm -f "$work/$name.out" # of an earlier server with this name
    moec serve "${run:-$work/run}" --port 0 "$@" >"$work/$name.out" 2>"$work/$name.err" &
    server=$!
    trap 'kill $server 2>/dev/null || true; wait; rm -rf "$work"' EXIT
    for _ in $(seq 300); do
        [ -s "$work/$name.out" ] || { kill -0 $server 2>/dev/null && sleep 0.1; } || wrong "$(cat "$work/$name.err")"
    done
    at=$(sed 's|^http://\([^/]*\)/.*|\1|' "$work/$name.out")
}

# printed NAME: the errors of the server NAME, without the note of the address sanitizer on coroutines.
printed() { grep -v "WARNING: ASan doesn't fully support makecontext" "$work/$1.err" || true; }

# ended NAME: the server NAME ends with 0 on request and has printed no error.
ended() {
    kill -TERM $server
    wait $server || wrong "the server $1 ends with $?: $(cat "$work/$1.err")"
    [ -z "$(printed "$1")" ] || wrong "$(printed "$1")"
}

json='Content-Type: application/json'
post() { curl -sS -m 20 -H "$json" "$at/v1/completions" -d "$1"; }
same() { [ "$2" = "$3" ] || wrong "$1: '$2' is not '$3'"; }
has() { case $2 in *"$3"*) ;; *) wrong "$1: no $3 in $2" ;; esac }
field() { sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"; }

# refuse STATUS PART WORD...: curl with those words gets that status, and PART in the answer.
refuse() {
    status=$1 part=$2
    shift 2
    got=$(curl -sS -m 20 -w ' %{http_code}' -H "$json" "$@")
    has "$*" "$got" "$part"
    same "status of $*" "${got##* }" "$status"
    case $got in *'"error":'*'"code":null'*) wrong "an error without a code: $got" ;; esac
}
