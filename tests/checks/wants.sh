#!/bin/sh
# `moec forward --outputs total,aux`: the total loss, whose gradients are computed, and its auxiliary terms, compiled and
# interpreted. A model without auxiliary terms has its loss as the total.
command -v python3 >/dev/null || { echo "no Python to read the tensors" && exit 0; }
. "$(dirname "$0")/../begin.sh"
cat >"$work/spec.moe" <<'END_OF_SPEC'
use decoder

model plain = decoder { dim = 8, layers = 1, attention.heads.q = 1, train = { batch_size = 1, context_length = 4 } }
model routed = plain { ffn = moe { experts = 4, top_k = 2, aux_loss_coef = 0.5, z_loss_coef = 0.5, expert.hidden_dim = 8 } }
END_OF_SPEC
head -c 40 README.md >"$work/text"
cat >"$work/check.py" <<'END_OF_PYTHON'
import json, struct, sys


def numbers(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8 : 8 + length])
    head.pop("__metadata__", None)
    return {name: struct.unpack_from("<f", data, 8 + length + entry["data_offsets"][0])[0] for name, entry in head.items()}


for model, names in ("plain", ["loss", "total"]), ("routed", ["balance", "loss", "router_z", "total"]):
    for graph in "forward", "train":
        compiled, defined = (numbers(f"{sys.argv[1]}/{model}.{graph}.{device}") for device in ("cpu", "eval"))
        found = sorted(name for name in compiled if not name.startswith("gradient:"))
        assert found == names, (model, graph, found)
        assert sorted(compiled) == sorted(defined), (model, graph)
        for name in found:
            assert abs(compiled[name] - defined[name]) < 1e-5 * abs(defined[name]), (model, name)
        terms = sum(compiled[name] for name in names if name != "total")
        assert abs(compiled["total"] - terms) < 1e-5 * terms, (model, graph, compiled)
END_OF_PYTHON
for model in plain routed; do
    moec init --force "$work/spec.moe:$model" --seed 1 --out "$work/weights"
    for device in cpu eval; do
        for graph in forward train; do
            grads=
            [ $graph = forward ] || grads=,grads
            moec forward "$work/spec.moe:$model" --weights "$work/weights" --input "$work/text" --outputs loss,total,aux$grads \
                --device $device --out "$work/$model.$graph.$device"
        done
    done
done
python3 "$work/check.py" "$work"
! moec forward "$work/spec.moe:plain" --weights "$work/weights" --input "$work/text" --outputs aux --out "$work/none" 2>"$work/message" ||
    wrong "a model without auxiliary terms has some"
