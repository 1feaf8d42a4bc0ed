#!/bin/sh
# Folders of moec emit --target cuda on the simulated driver (tests/stand_in/cuda_runtime.cpp replaces CUDA's runtime). They
# generate and train the same as the folders for the CPU, from the same weights.
. "$(dirname "$0")/../begin.sh"
root=$PWD
on_simulator
head -c 900 README.md >"$work/text"

# emitted NAME SET...: emits and builds that folder for the CPU and for CUDA.
emitted() {
    name=$1
    shift
    for target in c cuda; do
        moec emit models/tiny.moe:tiny_moe --target "$target" --out "$work/$name.$target" --set layers=2 --set dim=32 \
            --set train.context_length=16 --set train.batch_size=2 --set train.steps=3 "$@" >/dev/null
    done
    make -s -C "$work/$name.c" CFLAGS="-O1 -w"
    cd "$work/$name.cuda"
    sed -n 's/^    (const void \*)\(.*\),$/"\1",/p' kernels.cu >names
    echo "const void *const moec_kernel_functions[] = {$(cat names)};" >functions.c
    for source in *.c; do "${CC:-cc}" -std=c11 -O1 -w -I. -c "$source"; done
    for source in blocks_cuda.cu "$root/tests/stand_in/cuda_runtime.cpp"; do
        "${MOEC_CXX:-c++}" -std=c++17 -O1 -w -I. -I"$root/tests/stand_in" -I"$root/runtime/device/sim" -x c++ -c "$source"
    done
    "${MOEC_CXX:-c++}" -rdynamic -o "${name%_*}" ./*.o "$BUILD/libmoec_sim.so" -Wl,-rpath,"$BUILD" -ldl -lm
    cd "$root"
}

# f32: the same text and the same losses. bf16: losses within the effect of rounding.
emitted generate_exact --mode decode
for target in c cuda; do
    (cd "$work/generate_exact.$target" && ./generate --prompt "a spec" --tokens 8 --temperature 0 >"$work/$target.text")
done
cmp "$work/c.text" "$work/cuda.text" || { echo "the folders generate different text"; exit 1; }

for precision in f32=1e-4 bf16=1e-2; do
    name=train_${precision%=*}
    emitted "$name" --mode train --set train.precision="${precision%=*}" \
        --set 'parameters=[{ of = "*embedding", grad_clip = 0.01 }, { of = "block.*.attention.*", grad_clip = 0.02 }]'
    for target in c cuda; do
        (cd "$work/$name.$target" && ./train --data "$work/text" --steps 3) | sed 's/.* loss //' >"$work/$target.losses"
    done
    paste "$work/c.losses" "$work/cuda.losses" | awk -v most="${precision#*=}" '
        { gap = $1 - $2; if (gap < 0) gap = -gap; if (NF != 2 || !(gap <= most * $1)) bad = 1 }
        END { exit bad || NR != 3 }' || { paste "$work/c.losses" "$work/cuda.losses"; echo "$precision: the losses differ"; exit 1; }
done
