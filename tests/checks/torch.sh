#!/bin/sh
# moec emit --target torch: the files of a folder, of a run and of a spec; an import restores the same tensors. All models of
# tests/layers.moe, tests/ideas.moe and examples/ideas are written or refused with a location. tests/transformers/torch_models.sh runs them.
. "$(dirname "$0")/../begin.sh"
set +e
small_model 2
cd "$work" || exit 1
moec train small.moe --data text --out run >log 2>&1 || { cat log; wrong "the small model does not train"; }
moec emit run --target torch --out folder >log 2>&1 || { cat log; wrong "moec emit failed"; }
expected="README.md config.json configuration_small.py generation_config.json model.safetensors modeling_small.py moec_spec.txt "
[ "$(ls folder | tr '\n' ' ')" = "$expected" ] || wrong "files: $(ls folder | tr '\n' ' ')"
grep -q '"AutoModelForCausalLM": "modeling_small.SmallForCausalLM"' folder/config.json || wrong "config.json has no auto_map"
grep -q '"attention.head_dim": 8' folder/config.json || wrong "config.json has no options"
grep -q 'training step 2' folder/README.md || wrong "the model card has no step"
! grep -E '^(import|from) moec' folder/*.py || wrong "the folder needs moec"

# The way back: the same bytes of every tensor; a second folder is equal.
moec import folder --out again >log 2>&1 || { cat log; wrong "moec import failed"; }
moec emit again --target torch --out second >log 2>&1 || { cat log; wrong "the imported run is not written"; }
cmp folder/model.safetensors second/model.safetensors || wrong "other weights after the way back"
cmp folder/modeling_small.py second/modeling_small.py || wrong "another text after the way back"
moec eval again --data text >eval 2>&1 || { cat eval; wrong "the imported run is not evaluated"; }

# The same of frozen weights with layers: each layer is an attribute of the layer of its weight.
{
    cat small.moe
    echo 'model tuned = small { parameters = [{ of = "*", freeze = true }, { of = "*", apply = lora { rank = 2 } }] }'
} | sed 's/^use decoder/&\nuse lora/' >tuned.moe
moec train tuned.moe:tuned --data text --out tuned_run >log 2>&1 || { cat log; wrong "the tuned model does not train"; }
moec emit tuned_run --target torch --out tuned >log 2>&1 || { cat log; wrong "the tuned model is not written"; }
moec import tuned --out tuned_again >log 2>&1 || { cat log; wrong "the tuned model is not imported"; }
moec emit tuned_again --target torch --out tuned_second >log 2>&1 || { cat log; wrong "the imported tuned model is not written"; }
cmp tuned/model.safetensors tuned_second/model.safetensors || wrong "other tuned weights after the way back"
cmp tuned/modeling_tuned.py tuned_second/modeling_tuned.py || wrong "another text of the tuned model"
rm -r tuned tuned_run tuned_again tuned_second

# An option that changed in PyTorch.
grep -q '"norm.eps": 1e-06,' folder/config.json || wrong "config.json has no number: $(grep eps folder/config.json)"
grep -q '"norm.eps": float,' folder/configuration_small.py || wrong "norm.eps is not free"
grep -q '"dim": int' folder/configuration_small.py && wrong "dim is free"
mkdir changed && cp folder/* changed && sed 's/"norm.eps": 1e-06/"norm.eps": 0.001/' folder/config.json >changed/config.json
moec import changed --out other >log 2>&1 || { cat log; wrong "a changed option is not imported"; }
moec emit other --target torch --out third >log 2>&1 || { cat log; wrong "the changed run is not written"; }
grep -q '"norm.eps": 0.001,' third/config.json || wrong "the import lost an option: $(grep eps third/config.json)"
cmp folder/modeling_small.py third/modeling_small.py || wrong "another text after a changed option"
rm -r changed other third

# Damaged folders.
rm -r again
head -c 3000 folder/model.safetensors >cut && mv folder/model.safetensors kept && mv cut folder/model.safetensors
fails "model.safetensors" moec import folder --out nowhere
mv kept folder/model.safetensors
sed 's/dim = 8/dim = 9/' folder/moec_spec.txt >spec && mv folder/moec_spec.txt kept && mv spec folder/moec_spec.txt
moec import folder --out nowhere >log 2>&1 && wrong "a changed spec is imported"
[ ! -e nowhere ] || wrong "a changed spec leaves a run"
rm -r folder second
cd - >/dev/null || exit 1

written=0
for spec in tests/layers.moe tests/ideas.moe tests/ideas_blocks.moe $(ls examples/ideas/*.moe); do
    for model in $(sed -n 's/^model \([a-z0-9_]*\) =.*/\1/p' "$spec"); do
        rm -rf "$work/out"
        if moec emit -q "$spec:$model" --target torch --out "$work/out" >"$work/log" 2>&1; then
            written=$((written + 1))
        elif ! grep -q 'PyTorch target: random numbers' "$work/log"; then
            cat "$work/log"
            wrong "$spec:$model is not written"
        fi
    done
done
[ "$written" -ge 115 ] || wrong "only $written models are written"
