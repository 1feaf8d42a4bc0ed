#!/bin/sh
# moec inspect: tensors by their names in the spec, on a CPU, on the simulated device and in the interpreter.
. "$(dirname "$0")/../begin.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 0; }
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=2
cat stdlib/LANGUAGE.md >"$work/text"
cp tests/layers.moe "$work"
cd "$work" || exit 1
cat >small.moe <<'SPEC'
use decoder
layer mixed(x[s, d]) -> y[s, d] {
  scan h[d] from 1 over s {
    grown[d] = 0.5 * h[d]
    h[d] = grown[d] + x[s, d]
  }
  x[s, d] = x[s, d] + h[s, d]
  x[s, d] = 2 * x[s, d]
  y[s, d] = x[s, d]
}
model small = decoder {
  dim = 16, layers = 2
  attention = { heads = { q = 4, k = 2, v = 1 }, head_dim = 4, sink = true, softcap = 3 }
  ffn = swiglu { hidden_dim = 8 }
  train = { batch_size = 2, context_length = 12, steps = 2 }
}
model recurrent = small { ffn = mixed }
model experts = small { ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 8 } } }
SPEC

moec inspect small.moe:recurrent >names
for name in 'block.{i}.attention.q\[batch=2,s=12,h=4,e=4\]  std/attention.moe:' 'block.{i}.ffn.grown\[batch=2,s=12,d=16\]  small.moe:4' \
    'block.{i}.attention.attended_weights\[batch=2,h=4,s=12,s=12\]' 'block.{i}.ffn.x.2\[batch=2,s=12,d=16\]  small.moe:7'; do
    grep -q "^$name" names || wrong "not listed: $name: $(cat names)"
done

# same MODEL NAME...: the values of the tensors agree between the devices and the interpreter.
same() {
    model=$1
    shift
    for name; do set -- "$@" --show "$name"; shift; done
    moec inspect small.moe:$model -d text --values --json --device reference "$@" >exact
    moec inspect small.moe:$model -d text --values --json "$@" >cpu
    MOEC_CUDA=$simulator MOEC_SIM=unchecked moec inspect small.moe:$model -d text --values --json --device cuda "$@" >device
    for found in cpu device; do
        python3 - exact $found <<'PYTHON' || wrong "$model on $found: $*"
import json, sys
exact, found = (json.load(open(name)) for name in sys.argv[1:])
assert len(exact) == len(found) > 0 and [t["name"] for t in exact] == [t["name"] for t in found]
for one, other in zip(exact, found):
    assert one["shape"] == other["shape"] and len(one["values"]) == len(other["values"]) > 0
    error = sum((a - b) ** 2 for a, b in zip(one["values"], other["values"])) ** 0.5
    assert error <= 1e-5 * sum(a * a for a in one["values"]) ** 0.5, (one["name"], error)
PYTHON
    done
}
same recurrent 'block.*.ffn.*' 'block.0.attention.q[0,:,1,1:3]' 'attended_weights' logits final_norm.weight
same experts 'ffn.*'
same recurrent cache:attention.v cache:h 'cache:block.*.attention.key_rotary.y[1]'

# The state of decoding after the last token: keys and values of all tokens, the last value of a recurrence. Those of int8 are rounded.
moec inspect small.moe:recurrent | grep -q '^cache:block.{i}.ffn.h\[batch=2,d=16\]  small.moe:3' || wrong "the state is not listed"
moec inspect small.moe:recurrent -d text --values --json --show attention.v --show 'ffn.h[:,11]' >whole
moec inspect small.moe:recurrent -d text --values --json --show cache:attention.v --show cache:ffn.h >decoded
for type in bf16 int8; do
    moec inspect small.moe:recurrent -d text --values --json --show cache:attention.v --set inference.kv_cache_dtype=$type >$type
done
python3 - <<'PYTHON' || wrong "the state of decoding is wrong"
import json
read = lambda name: {t["name"].replace("cache:", ""): t["values"] for t in json.load(open(name))}
whole = read("whole")
def error(name, tensor):
    values, given = whole[tensor], read(name)[tensor]
    assert len(values) == len(given) > 0
    return sum((a - b) ** 2 for a, b in zip(values, given)) ** 0.5 / sum(a * a for a in values) ** 0.5
for tensor in "block.0.attention.v", "block.1.attention.v", "block.0.ffn.h", "block.1.ffn.h":
    assert error("decoded", tensor) < 1e-5, tensor
assert 1e-4 < error("bf16", "block.1.attention.v") < 4e-3 and 1e-4 < error("int8", "block.1.attention.v") < 2e-2
PYTHON
fails "did you mean 'block.0.attention.v'" moec inspect small.moe:recurrent -p x --show cache:block.0.attention.w

# Gradients of tensors: on all devices; equal to those of parameters of zeros that are added to them, in a repeat, in a recurrence and with
# another axis; 'first' and 'second' have equal values.
same recurrent 'gradient:block.*.ffn.*' 'gradient:attended[0]' gradient:logits gradient:final_norm.weight block.0.ffn.h
same experts 'gradient:ffn.*' gradient:x
cat >added.moe <<'SPEC'
use train
layer whole {
  option train: layer = train { batch_size = 1, context_length = 6 }
  sequence s = train.context_length
  axis d = 3
  axis v = 256
  axis n = 2
  input tokens[s]: token
  input targets[s]: next_token
  param embedding[v, d], out[d, v]
  x[s, d] = embedding[tokens[s], d]
  repeat block[i < 2] {
    param w[d, d], e[n, d], to_y[s, d] ~ zeros, to_h[s, d] ~ zeros, to_grown[s, d] ~ zeros, to_x[s, d] ~ zeros, to_z[n, s, d] ~ zeros, to_angle[s] ~ zeros
    y[s, d] = tanh(sum[j] x[s, j] * w[j, d]) + to_y[s, d]
    scan h[d] over s {
      grown[d] = 0.5 * h[d] + to_grown[s, d]
      h[d] = grown[d] * y[s, d] + y[s, d] + to_h[s, d]
    }
    z[n, s, d] = h[s, d] * e[n, d] + to_z[n, s, d]
    first[s, d] = 0.1 * h[s, d]
    second[s, d] = 0.1 * h[s, d]
    angle[s] = 0.3 * s
    turned[s, d] = x[s, d] * cos(angle[s] + to_angle[s])
    x[s, d] = x[s, d] + (sum[n] z[n, s, d] * z[n, s, d]) + 3 * first[s, d] + 5 * second[s, d] + to_x[s, d] + turned[s, d]
  }
  logits[s, v] = sum[d] x[s, d] * out[d, v]
  output logits
  loss = mean[batch, s] (logsumexp[v] logits[s, v] - logits[s, targets[s]])
}
model added = whole {}
SPEC
moec inspect added.moe -d text --values --json --show 'gradient:block.*' >gradients
python3 - <<'PYTHON' || wrong "the gradients of tensors are wrong"
import json
found = {t["name"].replace("gradient:block.", ""): t["values"] for t in json.load(open("gradients"))}
def equal(a, b, factor=1):
    assert len(a) == len(b) > 0 and any(a), (a, b)
    assert all(abs(factor * p - q) <= 1e-5 * max(map(abs, b)) for p, q in zip(a, b)), (a, b)
for layer in "01":
    for name in "y", "h", "grown", "x", "z", "angle":
        equal(found[f"{layer}.{name}"], found[f"{layer}.to_{name}"])
    equal(found[f"{layer}.first"], found[f"{layer}.second"], 5 / 3)
PYTHON

# A shown gradient does not change the forward pass: angles of distant positions remain in double precision.
for shown in "" "--show gradient:ffn.angle"; do
    for device in reference cpu; do
        # shellcheck disable=SC2086 # no argument or two
        moec inspect layers.moe:turned_far_out --set vocab_size=256 -p hello --values --json --device $device --show logits $shown >"$device$shown"
    done
done
python3 - <<'PYTHON' || wrong "a shown gradient makes the forward pass less precise"
import json
def error(shown):
    read = lambda name: {t["name"]: t["values"] for t in json.load(open(name))}
    exact, found = (read(device + shown)["logits"] for device in ("reference", "cpu"))
    return sum((a - b) ** 2 for a, b in zip(exact, found)) ** 0.5 / sum(a * a for a in exact) ** 0.5
assert max(error(""), error("--show gradient:ffn.angle")) < 1e-6
PYTHON
fails "does not compute the gradient of 'attended_weights'" moec inspect small.moe:small -d text --show gradient:attended_weights
fails "did you mean 'block.0.ffn.h'" moec inspect small.moe:small -d text --show gradient:block.0.ffn.hh
fails 'gradients require a prompt of two tokens' moec inspect small.moe:small -p x --show gradient:logits
moec inspect small.moe:small -p 'In the' --show gradient:logits | grep -q '^gradient:logits\[1,5,256\]' || wrong "gradients of a prompt"

# x is defined twice: x.2 is the first one, x twice as large. The weights of attention have the sum 1 without a sink.
moec inspect small.moe:recurrent -d text --values --json --show block.0.ffn.x --show block.0.ffn.x.2 >twice
moec inspect small.moe:recurrent -p 'In the beginning' --set attention.sink=false --values --json --show attended_weights >weights
python3 - <<'PYTHON' || wrong "the values are wrong"
import json
first, last = json.load(open("twice"))
assert all(abs(2 * a - b) <= 1e-6 * abs(b) for a, b in zip(first["values"], last["values"]))
for map in json.load(open("weights")):
    assert map["axes"] == "batch,h,s,s" and map["shape"] == [1, 4, 16, 16]
    rows = [map["values"][i:i + 16] for i in range(0, len(map["values"]), 16)]
    assert all(abs(sum(row) - 1) < 1e-5 for row in rows)
    assert all(row[t] == 0 for i, row in enumerate(rows) for t in range(i % 16 + 1, 16))
PYTHON

moec inspect small.moe:small -p 'In the beginning' --show 'attended_weights[0,2]' --show block.1.ffn.h --out shown.npz --svg maps.svg >table 2>log
[ "$(wc -l <table)" -eq 4 ] || wrong "$(cat table)"
python3 - <<'PYTHON' || wrong "the files are wrong"
import struct, xml.dom.minidom, zipfile
archive = zipfile.ZipFile("shown.npz")
assert archive.testzip() is None and len(archive.namelist()) == 3
array = archive.read("block.0.attention.attended_weights.npy")
length = struct.unpack("<H", array[8:10])[0]
assert array[:8] == b"\x93NUMPY\x01\x00" and (length + 10) % 64 == 0 and b"(1, 1, 16, 16, )" in array[:length + 10]
values = struct.unpack("<256f", array[length + 10:])
assert values[1] == 0 and 0 < values[0] <= 1
picture = open("maps.svg").read()
xml.dom.minidom.parseString(picture)
assert picture.count("block.1.ffn.h<") == 1 and picture.count("<rect") == 1 + 2 * 256 + 16 * 8
PYTHON

# Loads of experts: one bar per expert and layer, as high as its share.
moec inspect small.moe:experts -d text --show load --svg loads.svg --json --values >loads
python3 - <<'PYTHON' || wrong "the bars are wrong"
import json, re, xml.dom.minidom
loads, picture = json.load(open("loads")), open("loads.svg").read()
xml.dom.minidom.parseString(picture)
assert "http" not in picture.replace("http://www.w3.org/2000/svg", ""), "it does not open offline"
heights = [float(text) for text in re.findall(r'<rect [^>]*height="([0-9.]*)" fill="#[0-9a-f]{6}"', picture)]
shares = [value / max(layer["values"]) for layer in loads for value in layer["values"]]
assert len(shares) == len(heights) == 2 * 4
assert all(abs(height / 192 - share) < 1e-3 for height, share in zip(heights, shares)), (heights, shares)
PYTHON

moec train small.moe:small -d text -o run -q
moec inspect run -p 'In the beginning' --show logits >table || wrong "a run cannot be inspected"
fails "did you mean 'block.0.attention.q'?" moec inspect run -p x --show block.0.attention.qq
fails "'[0,12]' does not fit block.0.attention.q[batch,s,h,e] of size [2,12,4,4]" moec inspect run -d text --show 'block.0.attention.q[0,12]'
