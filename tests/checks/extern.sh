#!/bin/sh
# Hand-written kernels of layers (`extern`): the example agrees and runs, with its gradients, also in emitted folders and on the
# simulated device. Kernels that differ, write outside of their operands, crash or refuse the sizes are refused, and the equations
# run. A kernel with less work than the equations is faster. tests/cases/check/extern*.case has the messages about wrong statements.
. "$(dirname "$0")/../begin.sh"
cp examples/extern/norm.* "$work"
seq 1 400 >"$work/text"
cd "$work"
sed -i 's/layers *= 2/layers = 1/' norm.moe
export OMP_NUM_THREADS=1 MOEC_CFLAGS=-O0
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0" # a crash ends the process by its signal

# changed NAME SED...: the example as NAME.moe, NAME.c and NAME.cu, whose functions sed changes.
changed() {
    name=$1
    shift
    sed "$@" norm.c >"$name.c"
    sed "$@" norm.cu >"$name.cu"
    cmp -s norm.c "$name.c" && cmp -s norm.cu "$name.cu" && wrong "$name: nothing changed"
    sed "s/norm\.\(cu*\):/$name.\1:/" norm.moe >"$name.moe"
}

# refused TEXT NAME SED...: the kernel is refused with that text, and the equations agree.
refused() {
    text=$1
    shift
    changed "$@"
    moec verify "$1.moe" -b 2 -c 8 ${on:-} >out 2>&1 || wrong "$1: the equations do not run: $(cat out)"
    grep -q "is refused at rows = 16, d = 64; the equations of layer 'fused_norm' run instead" out && grep -q -- "$text" out ||
        wrong "$1 is not refused with '$text': $(cat out)"
    [ "$(grep -c 'is refused' out)" = 1 ] || wrong "$1 is refused more than once: $(cat out)"
}

# The right one, with its gradients.
moec verify norm.moe -b 2 -c 8 >out 2>&1 || wrong "$(cat out)"
grep -q "extern norm.c:norm agrees with the equations of layer 'fused_norm' at rows = 16, d = 64" out || wrong "$(cat out)"
grep -q "extern norm.c:norm_gradient agrees" out || wrong "no gradients: $(cat out)"

# It runs in the program, not in the comparison alone, whose result the cache keeps: a function with a message.
changed says -e 's/return 0;/fputs("kernel ran\\n", stderr); return 0;/' -e 's/#include <math.h>/&\n#include <stdio.h>/'
moec train says.moe --data text --out first --steps 1 >out 2>&1 || wrong "$(cat out)"
moec train says.moe --data text --out second --steps 1 -v >out 2>&1 || wrong "$(cat out)"
grep -q 'agrees with the equations' out && wrong "the comparison is repeated: $(cat out)"
[ "$(grep -c 'kernel ran' out)" -ge 6 ] || wrong "the kernels did not run in training: $(cat out)"
MOEC_EXTERN=off moec train says.moe --data text --out third --steps 1 >out 2>&1 || wrong "$(cat out)"
grep -q 'kernel ran' out && wrong "MOEC_EXTERN=off calls a kernel"
# A changed file is compared and compiled again; a run keeps its own.
sed -i 's/kernel ran/changed/' says.c
moec train says.moe --data text --out fourth --steps 1 -v >out 2>&1 || wrong "$(cat out)"
grep -q 'agrees with the equations' out && grep -q changed out || wrong "a changed file is not compared: $(cat out)"
mv says.c fourth.c
moec eval second --data text >out 2>&1 || wrong "$(cat out)"
grep -q 'kernel ran' out || wrong "a run without the file does not call its kernel: $(cat out)"

# Trust: without the cache that knows the text, a run computes the equations, until MOEC_EXTERN=on or a spec with the same file.
untrusted="the hand-written kernels of says.c in this checkpoint are not trusted on this machine: the equations run instead"
mv cache kept
moec eval second --data text >out 2>&1 || wrong "$(cat out)"
grep -q "$untrusted" out || wrong "no note: $(cat out)"
grep -q 'kernel ran' out && wrong "a kernel that nobody trusts ran"
moec emit second --out nowhere >out 2>&1 || wrong "$(cat out)"
grep -q "$untrusted" out && [ ! -e nowhere/extern_says.c ] || wrong "an emitted folder has a kernel that nobody trusts"
rm -r nowhere
MOEC_EXTERN=on moec eval second --data text >out 2>&1 || wrong "$(cat out)"
grep -q 'kernel ran' out || wrong "MOEC_EXTERN=on does not call the kernel: $(cat out)"
moec eval second --data text >out 2>&1
grep -q "$untrusted" out || wrong "MOEC_EXTERN=on trusts the file for ever"
rm -r cache
mv kept cache
# One changed byte of the checkpoint.
mkdir tampered
sed 's/"checksum"/"checksun"/; s/kernel ran/kernel RAN/' second/last.safetensors >tampered/last.safetensors
moec eval tampered --data text >out 2>&1 || wrong "$(cat out)"
grep -q "$untrusted" out && ! grep -q 'kernel R' out || wrong "a changed kernel ran: $(cat out)"
# A damaged copy in the cache is none.
for copy in cache/moec/*.trusted; do printf x | dd of="$copy" bs=1 seek=9 conv=notrunc 2>/dev/null; done
moec eval second --data text >out 2>&1
grep -q "$untrusted" out || wrong "a damaged copy is trusted"
sed 's/changed/kernel ran/' fourth.c >says.c
moec check says.moe >out || wrong "$(cat out)"
moec eval second --data text >out 2>&1 || wrong "$(cat out)"
grep -q 'kernel ran' out || wrong "a spec with the same file is not trusted: $(cat out)"
rm says.c

# Faults.
refused 'y\[0,0,0\] is .* instead of .*computed in value.moe:9; random values' value -e 's/EPS 1e-6f/EPS 1e-2f/'
refused "the gradient of gain\[0\] is .* instead of .*first read in gradient.moe:9" gradient -e 's/d_gain\[i\] += /d_gain[i] -= /'
refused "the function writes outside of 'y'" outside -e 's/i < d; i++) y\[/i <= d; i++) y[/'
refused 'ended by signal 11' crash -e 's/factor \* gain\[i\];/*(volatile float *)8;/'
refused 'it returns 1, so it refuses these sizes' shape -e 's/^    return 0;/    return d != 96;/'

# A workspace of 2 * d numbers per row, of d for the gradients. The functions fill it before and after they write their results.
# spaced NAME SED...: such functions as NAME.moe, NAME.c and NAME.cu, which sed changes.
spaced() {
    name=$1
    shift
    sed -e 's/float \*y)/float *y, float *workspace)/; s/float \*d_gain)/float *d_gain, float *workspace)/' \
        -e '/^int norm(/,/^}/ { s/const float \*from = x + r \* d, factor = \(.*\);/float *own = workspace + r * 2 * d; memcpy(own, x + r * d, sizeof *own * d); memcpy(own + d, x + r * d, sizeof *own * d); const float *from = own + d, factor = \1;/' \
        -e 's/ y\[r \* d + i\] = .*/& for (long i = 0; i < 2 * d; i++) own[i] = 1e30f;/; }' \
        -e 's/^    memset(d_gain/    for (long i = 0; i < rows * d; i++) workspace[i] = 1e30f;\n&/' "$@" norm.c >"$name.c"
    sed -e 's/float \*y)/float *y, float *workspace)/' \
        -e 's/y\[blockIdx.x \* d + i\] = .*/{ float *own = workspace + blockIdx.x * d; own[i] = from[i] * factor; y[blockIdx.x * d + i] = own[i] * gain[i]; own[i] = 1e30f; }/' \
        "$@" norm.cu >"$name.cu"
    sed -e 's/norm"$/norm" { workspace = 2 * d }/; s/{ gradient }/{ gradient, workspace = d }/; s/threads = 128/&, workspace = d/' \
        -e "s/norm\.\(cu*\):/$name.\1:/" norm.moe >"$name.moe"
}
spaced space
moec check space.moe >out || wrong "$(cat out)"
grep -q 'int norm(long rows, long d, const float \*x, const float \*gain, float \*y, float \*workspace)' out || wrong "no workspace: $(cat out)"
OMP_NUM_THREADS=2 moec verify space.moe -b 2 -c 8 >out 2>&1 || wrong "$(cat out)"
grep -q 'extern space.c:norm agrees' out && grep -q 'extern space.c:norm_gradient agrees' out || wrong "workspace: $(cat out)"
moec emit space.moe --out emitted_space >out 2>&1 && make -s -C emitted_space CFLAGS=-O1 >out 2>&1 || wrong "$(cat out)"
moec emit norm.moe --out emitted_norm >out 2>&1 && make -s -C emitted_norm CFLAGS=-O1 >out 2>&1 || wrong "$(cat out)"
for one in space norm; do (cd emitted_$one && ./generate --prompt 1 --tokens 8 --temperature 0) >given_$one 2>said || wrong "$(cat said)"; done
cmp given_space given_norm || wrong "a program with a workspace writes another text"
spaced over -e 's/i < 2 \* d; i++) own/i <= 2 * d; i++) own/'
moec verify over.moe -b 2 -c 8 >out 2>&1 || wrong "$(cat out)"
grep -q "the function writes outside of 'workspace'" out || wrong "a write outside of the workspace: $(cat out)"
spaced zero -e 's/factor_of(d, from);/factor_of(d, from) + workspace[0] * 0;/; s/const float \*from = own + d/own[0] = own[1] = workspace[2 * r * d]; &/'
sed -i 's/float \*own = workspace + r \* 2 \* d;/& if (own[0] != 0) return 1;/; /pragma omp parallel/d' zero.c
moec verify zero.moe -b 2 -c 8 >out 2>&1 || wrong "$(cat out)"
grep -q 'it returns 1' out || wrong "a kernel that expects zeros in its workspace is not refused: $(cat out)"

# An emitted folder has the file, and writes the same text.
moec generate first --prompt 1 -n 8 --temperature 0 >expected 2>said || wrong "$(cat said)"
moec emit first --out emitted >out 2>&1 || wrong "$(cat out)"
grep -q 'norm_gradient' emitted/extern_says.c || wrong "the folder lacks the file: $(ls emitted)"
make -s -C emitted CFLAGS=-O1 >out 2>&1 || wrong "$(cat out)"
(cd emitted && ./generate --prompt 1 --tokens 8 --temperature 0) >given 2>said || wrong "$(cat said)"
[ "$(tr -d '\n' <expected)" = "$(tr -d '\n' <given)" ] || wrong "other text: $(od -c expected given)"
grep -q 'kernel ran' said || wrong "the emitted program does not call the kernel"
moec emit norm.moe --target cuda --out emitted_cuda >out 2>&1 || wrong "$(cat out)"
grep -q '#include "extern_norm.cuh"' emitted_cuda/kernels.cu && cmp -s norm.cu emitted_cuda/extern_norm.cuh || wrong "CUDA: $(ls emitted_cuda)"
grep -q 'is not compared' out || wrong "emit does not say that it compares no CUDA kernel"

# Less work: a running maximum, whose equations compare all pairs of positions. Decoding derives it from them.
cat >running.moe <<'SPEC'
use train
layer running(x[s, d]) -> y[s, d] {
  y[s, d] = max[t] where(t <= s, x[t, d], -1e30)
  extern c "running.c:running"
  extern c "running.c:gradient" { gradient }
}
layer whole {
  option train: layer = train { batch_size = 1, context_length = 256 }
  sequence s = train.context_length
  axis d = 32
  input tokens[s]: token
  input targets[s]: next_token
  axis v = 256
  param embedding[v, d], out[d, v]
  x[s, d] = embedding[tokens[s], d]
  y[s, d] = running(x)
  logits[s, v] = sum[d] y[s, d] * out[d, v]
  output logits
  loss = mean[batch, s] (logsumexp[v] logits[s, v] - logits[s, targets[s]])
}
model run = whole {}
SPEC
cat >running.c <<'C'
#include <string.h>
int running(long rows, long s, long d, const float *x, float *y)
{
    for (long r = 0; r < rows; r++)
        for (long i = 0; i < s * d; i++) {
            const long at = r * s * d + i;
            y[at] = i >= d && y[at - d] > x[at] ? y[at - d] : x[at];
        }
    return 0;
}

int gradient(long rows, long s, long d, const float *x, const float *d_y, float *d_x)
{
    memset(d_x, 0, sizeof *d_x * (size_t)(rows * s * d));
    for (long r = 0; r < rows; r++)
        for (long i = 0; i < d; i++)
            for (long t = 0, best = r * s * d + i; t < s; t++) {
                const long at = (r * s + t) * d + i;
                if (x[at] > x[best]) best = at;
                d_x[best] += d_y[at];
            }
    return 0;
}
C
moec check running.moe >out || wrong "$(cat out)"
grep -q 'the equations run in decoding: its equations' out || wrong "check does not say what decoding computes: $(cat out)"
export MOEC_CFLAGS=-O1
moec bench running.moe --quick --kernels >on 2>&1 || wrong "$(cat on)"
MOEC_EXTERN=off moec bench running.moe --quick --kernels >off 2>&1 || wrong "$(cat off)"
# ms FILE: processor time of the kernels that compute y and the gradient of x.
ms() { awk '$1 ~ /^(running_y|running_y_2|first_running_y|d_x)$/ { for (i = 2; $i !~ /^[0-9]+[.][0-9][0-9][0-9]$/; i++); sum += $i } END { print sum }' "$1"; }
grep -q 'extern' on || wrong "the kernel is not called: $(cat on)"
awk -v on="$(ms on)" -v off="$(ms off)" 'BEGIN { exit !(on > 0 && off > 4 * on) }' || wrong "not faster: $(grep running.moe on off)"

export MOEC_CFLAGS=-O0

# The simulated device: the right kernel, wrong ones, and messages of its compiler.
export MOEC_CUDA="${MOEC_CUDA-$simulator}"
on="--device cuda"
moec verify norm.moe -b 2 -c 8 $on >out 2>&1 || wrong "$(cat out)"
grep -q "extern norm.cu:rms_norm agrees with the equations of layer 'fused_norm' at rows = 16, d = 64" out || wrong "$(cat out)"
# Kernels of a graph overlap on this GPU, but a hand-written kernel does not wait for the previous one.
MOEC_SIM=hopper moec verify norm.moe -b 2 -c 8 $on >out 2>&1 || wrong "overlapping launches: $(cat out)"
refused 'y\[0,0,0\] is .* instead of .*computed in value.moe:9' value -e 's/EPS 1e-6f/EPS 1e-2f/'
refused "the function writes outside of 'y'" outside -e 's/i < d; i += THREADS) y/i <= d; i += THREADS) y/'
moec verify space.moe -b 2 -c 8 $on >out 2>&1 || wrong "$(cat out)"
grep -q "extern space.cu:rms_norm agrees with the equations" out || wrong "workspace: $(cat out)"
spaced over -e 's/own\[i\] = 1e30f/own[i + 1] = 1e30f/'
moec verify over.moe -b 2 -c 8 $on >out 2>&1 || wrong "$(cat out)"
grep -q "the function writes outside of 'workspace'" out || wrong "a write outside of the workspace: $(cat out)"
changed far -e 's/y\[blockIdx.x \* d + i\]/y[blockIdx.x * d + i + 1000000]/'
fails 'the GPU is not usable after an error of far.cu:rms_norm' moec train far.moe --data text --out nowhere $on
grep -q 'at far.cu:' out || wrong "the simulated device does not locate the write: $(cat out)"
changed type -e 's/long d, const/int d, const/'
fails '__global__ void rms_norm(long rows, long d, const float *x, const float *gain, float *y)' moec train type.moe --data text --out nowhere $on
# A kernel that does not return ends the command.
changed endless -e 's/^{$/{ while (rows) ;/'
MOEC_AGAINST_TIMEOUT=0.5 fails 'the kernel endless.cu:rms_norm did not return within 0.5 s' moec train endless.moe --data text --out nowhere $on
