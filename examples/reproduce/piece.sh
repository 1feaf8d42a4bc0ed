#!/bin/sh
# Continues a long experiment of this folder for some minutes (default: to its end), two runs at a time, and keeps the logs of
# the finished runs in logs/NAME.tar.xz. A later call, also in another clone, continues from there.
#
#     sh examples/reproduce/piece.sh gates.moe:position_large 60
#
# Of the log of a finished run remain the lines of evaluations and every twentieth other line, without the probes of single
# layers. The table is computed from these lines.
set -eu
[ $# -ge 1 ] || { echo "usage: sh piece.sh FILE.moe:EXPERIMENT [MINUTES]" >&2; exit 2; }
here=$(dirname "$0")
moec=${MOEC:-build/moec}
out=${OUT:-build/reproduce}
name=${1#*:}
kept=$here/logs/$name.tar.xz
data=${DATA:-$out/text.txt}
mkdir -p "$out" "$here/logs"
[ -f "$data" ] || sh "$here/text.sh" "$data"
[ -d "$out/$name" ] || [ ! -f "$kept" ] || tar -xJf "$kept" -C "$out"

sweep() {
    timeout -s INT "${1}m" "$moec" sweep "$here/$2" --data "$data" --out "$out/$name" --jobs 2
}
code=0
sweep "${2:-0}" "$1" || code=$?

list=$out/$name/kept
(cd "$out" && ls "$name"/plans.json "$name"/sweep.json) >"$list"
for result in "$out/$name"/*/seed_*/result.json; do
    [ -f "$result" ] || continue
    run=${result%/result.json}
    awk '/"val_|"diverged"/ || (match($0, /"step":[0-9]+/) && substr($0, RSTART + 7, RLENGTH - 7) % 20 == 0)' "$run/log.jsonl" |
        sed 's/,"[a-z_]*\.layer":\[[][0-9a-z.,+-]*\]//g' >"$run/log.part"
    mv "$run/log.part" "$run/log.jsonl"
    for file in log.jsonl run.json result.json; do echo "${run#"$out/"}/$file"; done >>"$list"
done
tar --sort=name --owner=0 --group=0 --mtime=@0 -cJf "$kept.part" -C "$out" -T "$list"
mv "$kept.part" "$kept"
echo "$kept: $(grep -c 'result.json$' "$list") finished runs"
[ $code != 0 ] || sweep 0 "$1" >/dev/null
[ $code = 124 ] || exit $code
