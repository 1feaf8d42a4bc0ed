#!/bin/sh
# tests/freestanding.sh [WORD...]: models as freestanding C on machines that QEMU emulates: Linux on ARM64 and RISC-V, a Cortex-M3 and
# a Cortex-M4 without an operating system, WebAssembly. Each writes the tokens of `moec generate`, sampled, and on all machines every
# logit has the same bits. The largest depth of the stack on a Cortex-M is at most the printed one, and sizeof(Model) is the printed
# one. With WORDs, only machines whose name contains one. As root, missing packages are installed; otherwise the script prints the names of
# machines that it leaves out.
. "$(dirname "$0")/begin.sh"
root=$PWD
strict="-std=c99 -Wall -Wextra -Wpedantic -Werror"
run="-DCOUNT=12 -DTEMPERATURE=0.8f -DSEED=3"
asked=" $* "

# have COMMAND PACKAGE...: whether the command exists, if need be after an installation.
have() {
    command -v "$1" >/dev/null && return
    wanted=$1
    shift
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null 2>&1 &&
        command -v "$wanted" >/dev/null
}

# wants NAME: whether the machine is asked for.
wants() {
    [ "$asked" = "  " ] && return
    for word in $asked; do case $1 in *"$word"*) return 0 ;; esac; done
    return 1
}

# Names of the machines whose tools exist.
machines=
for machine in native clang arm64 riscv64 cortex-m3 cortex-m4 wasm; do
    wants $machine || continue
    case $machine in
    native) true ;;
    clang) have clang clang ;;
    arm64) have qemu-aarch64 qemu-user && have aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross ;;
    riscv64) have qemu-riscv64 qemu-user && have riscv64-linux-gnu-gcc gcc-riscv64-linux-gnu libc6-dev-riscv64-cross ;;
    cortex*) have qemu-system-arm qemu-system-arm && have arm-none-eabi-gcc gcc-arm-none-eabi ;;
    wasm)
        have clang clang && have node nodejs && have wasm-ld lld &&
            { [ -d /usr/include/wasm32-wasi ] || have no-command wasi-libc libclang-rt-14-dev-wasm32 || [ -d /usr/include/wasm32-wasi ]; } ;;
    esac && machines="$machines $machine" || echo "left out: $machine, whose tools are missing"
done

cat >"$work/wasi.mjs" <<'END'
import { WASI } from 'node:wasi';
import { readFileSync } from 'node:fs';
const wasi = new WASI({ version: 'preview1' });
const module = await WebAssembly.compile(readFileSync(process.argv[2]));
wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
END

# run_on MACHINE PROMPT: builds and runs the folder $work/f; the tokens, then the checksum.
# shellcheck disable=SC2086 # several words
run_on() (
    cd "$work/f" || exit 1
    hosted="$strict $run -DPROMPT=$2 example.c model.c"
    case $1 in
    native) gcc -O2 $hosted -o example && ./example ;;
    clang) clang -O3 $hosted -o example && ./example ;;
    arm64) aarch64-linux-gnu-gcc -O2 -static $hosted -o example && qemu-aarch64 ./example ;;
    riscv64) riscv64-linux-gnu-gcc -O2 -static $hosted -o example && qemu-riscv64 ./example ;;
    cortex-m*)
        cpu="-mthumb -mcpu=cortex-m3" board=mps2-an385
        [ "$1" = cortex-m3 ] || cpu="-mthumb -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16" board=mps2-an386
        arm-none-eabi-gcc $strict $cpu -Os -c -o model.o model.c || exit 1
        arm-none-eabi-gcc -std=gnu11 -Wall -Wextra -Werror $cpu -Os -ffreestanding -fno-tree-loop-distribute-patterns $run -DPROMPT="$2" -I. \
            -c -o main.o "$root/tests/freestanding/cortex_m.c" || exit 1
        arm-none-eabi-gcc $cpu -nostdlib -T "$root/tests/freestanding/cortex_m.ld" -o cortex_m main.o model.o -lgcc || exit 1
        timeout 300 qemu-system-arm -M $board -nographic -semihosting-config enable=on,target=native -kernel cortex_m ;;
    wasm) clang --target=wasm32-wasi -O2 -msimd128 $hosted -o example.wasm && node --no-warnings "$work/wasi.mjs" example.wasm ;;
    esac
)

# tried MODEL SET...: the model on all machines.
tried() {
    name=$1
    shift
    # shellcheck disable=SC2086
    moec init "$name" "$@" -o "$work/weights.safetensors" --force 2>"$work/log" || wrong "$name: $(cat "$work/log")"
    moec emit "$work/weights.safetensors" --profile freestanding --context-length 24 --out "$work/f" --force >"$work/log" 2>&1 || wrong "$name: $(cat "$work/log")"
    moec generate "$work/weights.safetensors" --token-ids -p "3 1 4 1 5" -n 12 --temperature 0.8 --seed 3 -c 24 2>"$work/log" |
        sed 's/^3 1 4 1 5 //; s/ *$//' >"$work/expected" || wrong "$name: $(cat "$work/log")"
    first='' used=''
    for machine in $machines; do
        run_on "$machine" 3,1,4,1,5 >"$work/output" 2>&1 </dev/null || wrong "$name, $machine: $(cat "$work/output")"
        sed 's/ *$//; s/checksum 0*/checksum /' "$work/output" >"$work/found"
        [ "$(sed -n 1p "$work/found")" = "$(cat "$work/expected")" ] || wrong "$name, $machine: $(cat "$work/found" "$work/expected")"
        checksum=$(sed -n 's/^checksum //p' "$work/found")
        [ -n "$checksum" ] && [ "${first:=$checksum}" = "$checksum" ] || wrong "$name, $machine: other bits in the logits: $checksum, $first"
        depth=$(sed -n 's/^stack //p' "$work/found")
        allowed=$(sed -n 's/.*stack  *at most \([0-9]*\) bytes.*/\1/p' "$work/f/model.c")
        [ "${depth:-0}" -le "$allowed" ] || wrong "$name, $machine: $depth bytes of stack, $allowed were printed"
        [ -z "$depth" ] || used=$depth
    done
    printf '%s: %s%s\n' "$name" "$(echo $machines)" "${used:+; stack $used of $allowed bytes}"
}

tried generated/dense.moe
tried generated/routed.moe
tried models/hybrid.moe:hybrid_small
tried models/gated_attention.moe:moe_small --set dim=32 --set layers=2
tried generated/dense.moe --set inference.weight_dtype=int8 --set inference.kv_cache_dtype=int8
tried generated/dense.moe --set inference.weight_dtype=int4 --set inference.head_dtype=int8
tried generated/routed.moe --set inference.weight_dtype=int4
tried generated/routed.moe --set inference.weight_dtype=bf16 --set inference.kv_cache_dtype=bf16
tried tests/layers.moe:hashes
tried tests/layers.moe:window_bias
for model in lstm_small mamba2_small rwkv7_small; do tried "models/hybrid.moe:$model"; done
