#!/bin/sh
# Paths with any bytes: line breaks, invalid UTF-8, quotes, patterns. Output that ends with "done" can be read back.
. "$(dirname "$0")/../begin.sh"
set +e
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
small_model 2
printf 'experiment widths { base = small, vary ffn.hidden_dim = [8, 12] }\n' >>"$work/small.moe"
cd "$work" || exit 1

# must COMMAND...: the command ends with 0.
must() { "$@" >log 2>&1 || wrong "$*: $(cat log)"; }

try() {
    mkdir -p "all/$1/data" || wrong "no folder $1"
    here=all/$1
    cp small.moe "$here/t.moe"
    cp text "$here/data/one"
    must moec train "$here/t.moe:small" --data "$here/data" --out "$here/run"
    grep -q 'done at step 2' log || wrong "no 'done': $(cat log)"
    must moec train "$here/t.moe:small" --data "$here/data" --out "$here/run" --resume --steps 3
    must moec generate "$here/run" --prompt a -n 2
    must moec check "$here/run"
    must moec diff "$here/run" "$here/t.moe:small"
    must moec compare "$here/run" --json
    must moec report "$here/run" --out page.html --force
    must moec init "$here/t.moe:small" --seed 1 --out "$here/w.safetensors"
    must moec check "$here/w.safetensors"
    must moec emit "$here/run" --out "$here/emitted"
    must make -C "$here/emitted" CFLAGS=-O0
    # run.json has the path of the data, without loss.
    grep -q '"data": null' "$here/run/run.json" && wrong "run.json has lost the path of the data: $(cat "$here/run/run.json")"
    sed -n 's/^  "data": //p' "$here/run/run.json" >>written
}
count=0
for at in 1 2 3 4 5 6 7 8 9 10 11 12; do
    case $at in
    1) name=$(printf 'new\nline') ;;
    2) name=$(printf '\377') ;;
    3) name=$(printf '\376') ;;
    4) name='back\slash' ;;
    5) name='\xff' ;;
    6) name='quo"te' ;;
    7) name="q's" ;;
    8) name='%s%n' ;;
    9) name='[a]' ;;
    10) name='a*b' ;;
    11) name=' two  spaces' ;;
    12) name=$(printf 'tab\there') ;;
    esac
    try "$name"
    count=$((count + 1))
done
[ "$(sort -u written | wc -l)" = $count ] || wrong "two paths are the same in run.json: $(cat written)"
here="all/$(printf '\377')"
must moec sweep "$here/t.moe" --data "$here/data" --out "$here/swept"
must moec compare "$here/swept" --csv
mkdir other && cp text other/one
cp -r "$here/swept" "$here/moved"
moec sweep "$here/t.moe" --data "all/$(printf '\376')/data" --out "$here/swept" >log 2>&1 && wrong "other data of the same sweep is accepted"
grep -q 'data is not the same' log || wrong "$(cat log)"

# ---- a checkpoint that cannot be read back ends without "done" ----
cat >damage.c <<'SOURCE'
/* Renames the file as usual and then damages the checkpoint. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int rename(const char *from, const char *to) {
    int (*real)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    int result = real(from, to);
    const char *end = strstr(to, "last.safetensors");
    FILE *file = end ? fopen(to, "r+") : NULL;
    if (file) { fseek(file, -3, SEEK_END); fputc(77, file); fclose(file); }
    return result;
}
SOURCE
"${CC:-cc}" -shared -fPIC -o damage.so damage.c -ldl || wrong "no damage.so"
for steps in 2 0; do
    rm -rf bad
    if LD_PRELOAD=$PWD/damage.so moec train small.moe:small --data text --out bad --steps $steps >log 2>&1; then wrong "a damaged checkpoint is not reported: $(cat log)"; fi
    grep -q 'cannot be read back' log || wrong "no message: $(cat log)"
    grep -qE '^done|holds the weights' log && wrong "it ends with done: $(cat log)"
done

# ---- sbatch ----
code=0
moec sweep small.moe --dry-run --slurm none --out "$(printf 'a\nb')" >log 2>&1 || code=$?
[ $code = 2 ] && grep -q 'cannot contain line breaks' log || wrong "--out with a line break: $(cat log)"
moec sweep small.moe --dry-run --slurm none --out 'a b%j"c#' >script || wrong "no script"
grep -qxF '#SBATCH --output="a b%%j\"c#/slurm_%a.txt"' script || wrong "another output: $(cat script)"
# sbatch reads the script here: it splits the line as Slurm does, and the case as a shell does.
mkdir bin
cat >bin/sbatch <<'STUB'
#!/bin/sh
[ "$1" = --parsable ] && [ -f "$2" ] || exit 1
SLURM_ARRAY_TASK_ID=0 bash "$2" >"$2.out" 2>&1 && SLURM_ARRAY_TASK_ID=1 bash "$2" >>"$2.out" 2>&1 || exit 1
echo 17
STUB
printf '#!/bin/sh\nexit 1\n' >bin/squeue
chmod +x bin/*
out="a b%j'c\"d#"
PATH=$PWD/bin:$PATH moec sweep small.moe --slurm none --data text --out "$out" >log 2>&1 || wrong "by jobs: $(cat log; cat "$out"/*.out)"
[ -e "$out/table.json" ] && [ -e "$out/hidden_dim_12/seed_1/last.safetensors" ] || wrong "the runs are in another folder: $(find . -name table.json)"
exit 0
