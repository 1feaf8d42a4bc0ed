#!/bin/sh
# Continues a long experiment of this folder for some minutes (default: to its end), two runs at a time, and keeps the logs of
# the finished runs in logs/NAME.tar.xz. A later call, also in another clone, continues from there.
#
#     sh examples/reproduce/piece.sh gates.moe:position_large 60
#
# Of each log it keeps the lines of evaluations and every twentieth other line, without the probes of single layers. page.sh
# reads the kept logs, so that a table can be computed again from them.
set -eu
[ $# -ge 1 ] || { echo "usage: sh piece.sh FILE.moe:EXPERIMENT [MINUTES]" >&2; exit 2; }
here=$(dirname "$0")
moec=${MOEC:-build/moec}
out=${OUT:-build/reproduce}
name=${1#*:}
kept=$here/logs/$name.tar.xz
mkdir -p "$out/kept" "$here/logs"
[ -f "$out/text.txt" ] || sh "$here/text.sh" "$out/text.txt"
[ -d "$out/$name" ] || [ ! -f "$kept" ] || tar -xJf "$kept" -C "$out"

code=0
timeout -s INT "${2:-0}m" "$moec" sweep "$here/$1" --data "$out/text.txt" --out "$out/$name" --jobs 2 || code=$?

rm -rf "$out/kept/$name"
mkdir "$out/kept/$name"
cp "$out/$name/plans.json" "$out/$name/sweep.json" "$out/kept/$name"
for result in "$out/$name"/*/seed_*/result.json; do
    [ -f "$result" ] || continue
    run=$(dirname "$result")
    to=$out/kept/$name/${run#"$out/$name/"}
    mkdir -p "$to"
    cp "$run/run.json" "$result" "$to"
    awk '/"val_|"diverged"/ || (match($0, /"step":[0-9]+/) && substr($0, RSTART + 7, RLENGTH - 7) % 20 == 0)' "$run/log.jsonl" |
        sed 's/,"[a-z_]*\.layer":\[[^]]*\]//g' >"$to/log.jsonl"
done
tar --sort=name --owner=0 --group=0 --mtime=@0 -cJf "$kept.part" -C "$out/kept" "$name"
mv "$kept.part" "$kept"
echo "$kept: $(find "$out/kept/$name" -name result.json | wc -l) finished runs"
[ $code = 124 ] || exit $code
