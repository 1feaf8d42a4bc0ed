#!/bin/sh
# Compile time and memory of large specs grow with their size: each is checked within 2 s and 500 MB.
. "$(dirname "$0")/../begin.sh"
cd "$work"

# within NAME COMMAND...: the command ends with 0 within the limits.
within() {
    what=$1 code=0
    shift
    (ulimit -v 500000 && ulimit -t 2 && exec "$@") >out 2>&1 || code=$?
    [ $code = 0 ] || { head -3 out; wrong "$what: moec ended with $code"; }
    grep -qE '^model |^ +offset ' out || { head -3 out; wrong "$what: moec does not print the model"; }
}

# model LAYER: a decoder with that feed-forward layer.
model() { echo "model m = decoder { dim = 32, layers = 1, ffn = $1, train = { batch_size = 2, context_length = 16 } }"; }

# 1,500 equations in a layer.
awk 'BEGIN {
    print "use decoder\nlayer long(x[s, d]) -> y[s, d] {\n  y0[s, d] = x[s, d]"
    for (i = 1; i <= 1500; i++) print "  y" i "[s, d] = tanh(y" i - 1 "[s, d]) * 0.5 + x[s, d]"
    print "  y[s, d] = y1500[s, d]\n}"
}' >long.moe
model long >>long.moe
within "1,500 equations" moec check long.moe

# 300 products of the two equations before.
awk 'BEGIN {
    print "use decoder\nlayer products(x[s, d]) -> y[s, d] {\n  y0[s, d] = x[s, d]\n  y1[s, d] = tanh(x[s, d])"
    for (i = 2; i <= 300; i++) print "  y" i "[s, d] = y" i - 1 "[s, d] * y" i - 2 "[s, d]"
    print "  y[s, d] = y300[s, d]\n}"
}' >products.moe
model products >>products.moe
within "300 products" moec check products.moe

# 300 layers applied one after the other.
awk 'BEGIN {
    printf "use decoder\nmodel m = decoder {\n  dim = 32, layers = 1, train = { batch_size = 2, context_length = 16 }\n  attention = { heads = { q = 2 }, head_dim = 16, gate = ["
    for (i = 1; i <= 300; i++) printf "{ at = %s }%s", i % 2 ? "sdpa" : "v", i < 300 ? ", " : "] }\n}\n"
}' >gates.moe
within "300 gates" moec check gates.moe

# A layer of two layers of two layers ..., 1,024 in all.
awk 'BEGIN {
    print "use decoder\nlayer l0(x[s, d]) -> y[s, d] { y = tanh(x) }"
    for (i = 1; i <= 10; i++) print "layer l" i "(x[s, d]) -> y[s, d] { y = l" i - 1 "(x) + l" i - 1 "@second(x) }"
}' >double.moe
model l10 >>double.moe
within "1,024 layers" moec check double.moe

# A repeat of repeats, 10,000 steps.
{
    echo "use decoder"
    echo "layer nested(x[s, d]) -> y[s, d] {"
    echo "  y = x"
    echo "  repeat outer[i < 100] { repeat inner[j < 100] { y = tanh(y) } }"
    echo "}"
    model nested
} >nested.moe
within "100 times 100 steps" moec check nested.moe

# 120 different steps over a long context: every temporary could be strip-mined.
{
    echo "use decoder"
    echo "layer unrolled(x[s, d]) -> y[s, d] {"
    echo "  y = x"
    echo "  repeat step[i < 120] {"
    echo "    if floor(sqrt(i * i * i)) % 7 < 3 { y = y + swiglu(y; hidden_dim = 16 + i) } else {"
    echo "      y = y + attention(y; heads.q = 2, heads.k = 1, heads.v = 1, head_dim = 8)"
    echo "    }"
    echo "  }"
    echo "}"
    echo "model m = decoder { dim = 64, layers = 1, ffn = unrolled, train = { batch_size = 4, context_length = 131072 } }"
} >unrolled.moe
within "120 steps over 131,072 places" moec dump unrolled.moe --after plan

# 3,000 declared layers, each of them applied; 3,000 equations that are equal in every step of a repeat.
awk 'BEGIN {
    print "use decoder"
    for (i = 1; i <= 3000; i++) print "layer l" i "(x[s, d]) -> y[s, d] { y = tanh(x) }"
    print "layer all(x[s, d]) -> y[s, d] {\n  y0 = x"
    for (i = 1; i <= 3000; i++) print "  y" i " = l" i "(y" i - 1 ")"
    print "  y = y3000\n}"
}' >many.moe
model all >>many.moe
within "3,000 layers declared" moec check many.moe
awk 'BEGIN {
    print "use decoder\nlayer fixed(x[s, d]) -> y[s, d] {\n  y = x\n  repeat step[i < 3] {\n    z0[s] = s * 0.5"
    for (i = 1; i <= 3000; i++) print "    z" i "[s] = sin(z" i - 1 "[s] + " i ")"
    print "    y = y[s, d] * z3000[s]\n  }\n}"
}' >fixed.moe
model fixed >>fixed.moe
within "3,000 equations alike in every step" moec check fixed.moe
