#!/bin/sh
# The questions of a first week. Each row: question, pages, search words, answer. One of the pages is found by `grep -ril` with each
# of the words and contains the answer, a regular expression. The first page is preferred; it may not exist yet.
. "$(dirname "$0")/../begin.sh"
cat >"$work/questions" <<'END'
How do I install it on Debian or Ubuntu?|README.md|install, debian, ubuntu|sh examples/quickstart\.sh
Does it run on macOS, Windows, ARM?|runtime/PLATFORMS.md examples/guides/platforms.md|macos, windows, arm64|macOS, Windows .*WSL
Which compiler, CUDA and GPU do I need?|runtime/PLATFORMS.md examples/guides/platforms.md|compiler, cuda, gpu|C11 compiler
How do I train on my text?|examples/guides/02-first-model.md|train, text|moec train .*--data
How do I resume after Ctrl-C or a crash?|examples/guides/04-training.md|resume, ctrl-c, crash|--resume
How do I set the number of threads?|runtime/CLI.md examples/guides/12-troubleshooting.md|threads|OMP_NUM_THREADS
What do I change if memory runs out?|examples/guides/12-troubleshooting.md|out of memory|train\.remat|train\.activation_checkpointing
What do I do if the loss is NaN?|examples/guides/12-troubleshooting.md|nan, loss|train\.lr
How do I accumulate gradients?|examples/guides/04-training.md|gradient accumulation|train\.accumulate|train\.gradient_accumulation_steps
Which schedules and warm-ups exist?|stdlib/OPTIONS.md examples/guides/04-training.md|schedule, warm-?up|cosine
Which options does attention have?|stdlib/OPTIONS.md examples/guides/02-first-model.md|attention, window|QK-norm|qk_norm
Which layers does the library have?|stdlib/OPTIONS.md examples/guides/02-first-model.md|layer, swiglu, mamba2|gated_delta
How do I import Qwen or Llama?|examples/guides/06-import-export.md|import, qwen, llama|moec import
How do I fine-tune or use LoRA?|examples/guides/27-lora.md examples/guides/04-training.md|fine-tun, lora|apply = lora
How do I run int8 inference or serve an API?|examples/guides/10-precision-quantization.md|int8, infer|int8
How do I serve an API?|examples/guides/05-generate-serve.md|serve, openai|moec serve
How do I write my own layer?|examples/guides/09-custom-layers.md|custom, layer|layer [a-z_]*\(
What do the log fields mean?|runtime/FILES.md examples/guides/04-training.md|log.jsonl, grad_norm|val_bits_per_byte
What do the columns of explain mean?|runtime/CLI.md examples/guides/12-troubleshooting.md|moec explain, column|FLOP.*bytes.*lower bound
How do I compare two runs?|examples/guides/07-experiments.md|compare, seeds|moec compare
How do I read the report?|examples/guides/07-experiments.md|report, confidence|interval .*(contains|excludes) 0
How fast is it against PyTorch, llama.cpp?|tests/RESULTS.md README.md|speed, pytorch, llama.cpp|tokens/s
Why moec instead of PyTorch or JAX?|examples/comparison.md README.md|pytorch, jax|JAX
What can it not do?|README.md|not for|quantized inference on GPUs
Does it train on several GPUs?|examples/guides/22-several-gpus.md|several gpus|mpirun .*--device cuda
Which exit codes and variables exist?|runtime/CLI.md examples/guides/12-troubleshooting.md|exit code, environment|0 success
What is in a checkpoint or token file?|runtime/FILES.md examples/guides/02-first-model.md|checkpoint, safetensors|weights, optimizer state
Where is the Python API?|runtime/python/API.md README.md|python, api|runtime/python
How do I call it from C?|examples/guides/11-deployment.md|libmoec, c program|library\.c
How do I report a bug or contribute?|compiler/CONTRIBUTING.md examples/guides/contributing.md|bug, report, commit|moec --version
What changed, and what stays stable?|runtime/CHANGELOG.md examples/guides/platforms.md|stab, version|[Cc]heckpoint
END
grep -rl --include='*.md' . README.md LICENSE compiler examples models runtime stdlib tests >"$work/pages"
status=0 count=0
while IFS='|' read -r question pages words answer; do
    count=$((count + 1)) found=
    for page in $pages; do
        [ -z "$found" ] && [ -e "$page" ] || continue
        found=$page
        echo "$words" | tr ',' '\n' | sed 's/^ *//' >"$work/words"
        while read -r word; do
            xargs grep -Eil -e "$word" <"$work/pages" | grep -qxF "$page" || found=
        done <"$work/words"
        [ -z "$found" ] || grep -Eq -e "${answer%|}" "$page" || found=
    done
    [ -n "$found" ] || { echo "no page answers '$question' ($pages: $words)"; status=1; }
done <"$work/questions"
[ "$count" -ge 30 ] || wrong "only $count questions"
exit $status
