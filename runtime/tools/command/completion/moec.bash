# Completion of moec for bash, written by `moec completion bash`.

_moec_tables() {
    flags= values= kind=file spec=
    case $command in
    train) flags='--data -d --val-data --tokenizer --out -o --tensorboard --mesh --steps --seed -s --resume --stop-after --diverged-above --watch --init-from --init-missing --device --json --no-cache --time-passes --set --batch-size -b --context-length -c --lr --precision --threads -t --quiet -q --verbose -v --color --help -h ' ;;
    sweep) flags='--data -d --val-data --tokenizer --out -o --jobs --dry-run --device --slurm --resume --amend --json --tensorboard --set --batch-size -b --context-length -c --lr --steps --precision --threads -t --quiet -q --verbose -v --color --help -h ' ;;
    eval) flags='--data -d --multiple-choice --probes --incremental --json --device --set --batch-size -b --context-length -c --precision --weight-dtype --head-dtype --kv-cache-dtype --threads -t --quiet -q --verbose -v --color --help -h ' ;;
    generate) flags='--prompt -p --prompts --chat --tokenizer --token-ids --json --perf --max-tokens -n --steps --stop --ignore-eos --temperature --top-k --top-p --min-p --repeat-penalty --num-samples --seed -s --draft --draft-tokens --device --set --context-length -c --precision --weight-dtype --head-dtype --kv-cache-dtype --threads -t --quiet -q --verbose -v --color --help -h ' ;;
    serve) flags='--host --port --alias --tokenizer --chat-template --context-length -c --parallel --cache-memory --max-queue --max-connections --max-body-size --timeout --client-timeout --device --set --precision --weight-dtype --head-dtype --kv-cache-dtype --threads -t --quiet -q --verbose -v --color --help -h ' ;;
    sample) flags='--out -o --count --steps --seed -s --json --device --set --precision --threads -t --quiet -q --verbose -v --color --help -h ' ;;
    check) flags='--set --mesh --json --batch-size -b --context-length -c --lr --steps --precision --weight-dtype --head-dtype --kv-cache-dtype --quiet -q --verbose -v --color --help -h ' ;;
    explain) flags='--mode --target --svg --dot --json --peak-gflops --peak-gbytes --mesh --machine --set --batch-size -b --context-length -c --precision --weight-dtype --head-dtype --kv-cache-dtype --quiet -q --verbose -v --color --help -h ' ;;
    plan) flags='--ranks --machine --json --set --batch-size -b --context-length -c --precision --quiet -q --verbose -v --color --help -h ' ;;
    inspect) flags='--show --prompt -p --data -d --values --out -o --svg --device --seed -s --json --set --batch-size -b --context-length -c --precision --weight-dtype --head-dtype --kv-cache-dtype --threads -t --quiet -q --verbose -v --color --help -h ' ;;
    doc) flags='--json --markdown --quiet -q --verbose -v --color --help -h ' ;;
    tensors) flags='--json --quiet -q --verbose -v --color --help -h ' ;;
    verify) flags='--device --batch-size -b --context-length -c --shapes --bisect --forms --mesh --seed -s --against --dtypes --sizes --inputs --json --set --lr --steps --precision --weight-dtype --head-dtype --kv-cache-dtype --threads -t --quiet -q --verbose -v --color --help -h ' ;;
    bench) flags='--mode --device --json --kernels --trace --prefix-length --batch-size -b --quick --set --context-length -c --lr --steps --precision --weight-dtype --head-dtype --kv-cache-dtype --threads -t --quiet -q --verbose -v --color --help -h ' ;;
    compare) flags='--baseline --markdown --csv --json --svg --quiet -q --verbose -v --color --help -h ' ;;
    report) flags='--out -o --force --baseline --open --json --quiet -q --verbose -v --color --help -h ' ;;
    log) flags='--csv --json --quiet -q --verbose -v --color --help -h ' ;;
    diff) flags='--set --json --batch-size -b --context-length -c --lr --steps --precision --quiet -q --verbose -v --color --help -h ' ;;
    transfer) flags='--set --json --batch-size -b --context-length -c --lr --steps --precision --quiet -q --verbose -v --color --help -h ' ;;
    coordcheck) flags='--vary --steps --max-ratio --seed -s --num-seeds --svg --set --json --batch-size -b --context-length -c --lr --precision --threads -t --quiet -q --verbose -v --color --help -h ' ;;
    import) flags='--out -o --layout --name --no-tokenizer --json --set --batch-size -b --context-length -c --lr --steps --precision --quiet -q --verbose -v --color --help -h ' ;;
    export) flags='--format --out -o --layout --type --no-tokenizer --json --quiet -q --verbose -v --color --help -h ' ;;
    quantize) flags='--type --head-type --out -o --data -d --json --quiet -q --verbose -v --color --help -h ' ;;
    emit) flags='--target --mode --profile --weights --out -o --force --json --context-length -c --time-passes --set --lr --steps --precision --weight-dtype --head-dtype --kv-cache-dtype --quiet -q --verbose -v --color --help -h ' ;;
    tokenize) flags='--tokenizer --out -o --force --json --lines --json-field --chat-template --context-length -c --no-special-tokens --append-token --token-bits --resume --threads -t --chunk-size --quiet -q --verbose -v --color --help -h ' ;;
    tokenizer) flags='--vocab-size --out -o --special-token --pattern --min-frequency --json --quiet -q --verbose -v --color --help -h ' ;;
    init) flags='--seed -s --out -o --force --json --set --batch-size -b --context-length -c --lr --steps --precision --quiet -q --verbose -v --color --help -h ' ;;
    forward) flags='--weights --input --outputs --out -o --device --context-length -c --seed -s --json --set --precision --weight-dtype --head-dtype --kv-cache-dtype --threads -t --quiet -q --verbose -v --color --help -h ' ;;
    fmt) flags='--check --quiet -q --verbose -v --color --help -h ' ;;
    lsp) flags='--stdio --quiet -q --verbose -v --color --help -h ' ;;
    dump) flags='--after --mode --target --mesh --set --batch-size -b --context-length -c --lr --steps --precision --weight-dtype --head-dtype --kv-cache-dtype --quiet -q --verbose -v --color --help -h ' ;;
    completion) flags='--quiet -q --verbose -v --color --help -h ' ;;
    help) kind=list values='train sweep eval generate serve sample check explain plan inspect doc tensors verify bench compare report log diff transfer coordcheck import export quantize emit tokenize tokenizer init forward fmt lsp dump completion help version' ;;
    esac
    [ "$command" = completion ] && kind=list values='bash zsh fish'
    case "$command $previous" in
    'train --mesh') kind=list values='' ;;
    'train --steps') kind=list values='' ;;
    'train --seed'|'train -s') kind=list values='' ;;
    'train --stop-after') kind=list values='' ;;
    'train --diverged-above') kind=list values='' ;;
    'train --watch') kind=list values='' ;;
    'train --device') kind=list values='' ;;
    'train --batch-size'|'train -b') kind=list values='' ;;
    'train --context-length'|'train -c') kind=list values='' ;;
    'train --lr') kind=list values='' ;;
    'train --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'train --threads'|'train -t') kind=list values='' ;;
    'train --color') kind=list values='auto always never' ;;
    'sweep --jobs') kind=list values='' ;;
    'sweep --device') kind=list values='' ;;
    'sweep --slurm') kind=list values='' ;;
    'sweep --amend') kind=list values='' ;;
    'sweep --batch-size'|'sweep -b') kind=list values='' ;;
    'sweep --context-length'|'sweep -c') kind=list values='' ;;
    'sweep --lr') kind=list values='' ;;
    'sweep --steps') kind=list values='' ;;
    'sweep --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'sweep --threads'|'sweep -t') kind=list values='' ;;
    'sweep --color') kind=list values='auto always never' ;;
    'eval --device') kind=list values='' ;;
    'eval --batch-size'|'eval -b') kind=list values='' ;;
    'eval --context-length'|'eval -c') kind=list values='' ;;
    'eval --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'eval --weight-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'eval --head-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'eval --kv-cache-dtype') kind=list values='f32 bf16 int8' ;;
    'eval --threads'|'eval -t') kind=list values='' ;;
    'eval --color') kind=list values='auto always never' ;;
    'generate --prompt'|'generate -p') kind=list values='' ;;
    'generate --max-tokens'|'generate -n') kind=list values='' ;;
    'generate --steps') kind=list values='' ;;
    'generate --stop') kind=list values='' ;;
    'generate --temperature') kind=list values='' ;;
    'generate --top-k') kind=list values='' ;;
    'generate --top-p') kind=list values='' ;;
    'generate --min-p') kind=list values='' ;;
    'generate --repeat-penalty') kind=list values='' ;;
    'generate --num-samples') kind=list values='' ;;
    'generate --seed'|'generate -s') kind=list values='' ;;
    'generate --draft-tokens') kind=list values='' ;;
    'generate --device') kind=list values='' ;;
    'generate --context-length'|'generate -c') kind=list values='' ;;
    'generate --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'generate --weight-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'generate --head-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'generate --kv-cache-dtype') kind=list values='f32 bf16 int8' ;;
    'generate --threads'|'generate -t') kind=list values='' ;;
    'generate --color') kind=list values='auto always never' ;;
    'serve --host') kind=list values='' ;;
    'serve --port') kind=list values='' ;;
    'serve --alias') kind=list values='' ;;
    'serve --context-length'|'serve -c') kind=list values='' ;;
    'serve --parallel') kind=list values='' ;;
    'serve --cache-memory') kind=list values='' ;;
    'serve --max-queue') kind=list values='' ;;
    'serve --max-connections') kind=list values='' ;;
    'serve --max-body-size') kind=list values='' ;;
    'serve --timeout') kind=list values='' ;;
    'serve --client-timeout') kind=list values='' ;;
    'serve --device') kind=list values='' ;;
    'serve --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'serve --weight-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'serve --head-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'serve --kv-cache-dtype') kind=list values='f32 bf16 int8' ;;
    'serve --threads'|'serve -t') kind=list values='' ;;
    'serve --color') kind=list values='auto always never' ;;
    'sample --count') kind=list values='' ;;
    'sample --steps') kind=list values='' ;;
    'sample --seed'|'sample -s') kind=list values='' ;;
    'sample --device') kind=list values='' ;;
    'sample --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'sample --threads'|'sample -t') kind=list values='' ;;
    'sample --color') kind=list values='auto always never' ;;
    'check --mesh') kind=list values='' ;;
    'check --batch-size'|'check -b') kind=list values='' ;;
    'check --context-length'|'check -c') kind=list values='' ;;
    'check --lr') kind=list values='' ;;
    'check --steps') kind=list values='' ;;
    'check --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'check --weight-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'check --head-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'check --kv-cache-dtype') kind=list values='f32 bf16 int8' ;;
    'check --color') kind=list values='auto always never' ;;
    'explain --mode') kind=list values='forward train decode eval' ;;
    'explain --target') kind=list values='c cuda' ;;
    'explain --peak-gflops') kind=list values='' ;;
    'explain --peak-gbytes') kind=list values='' ;;
    'explain --mesh') kind=list values='' ;;
    'explain --machine') kind=list values='' ;;
    'explain --batch-size'|'explain -b') kind=list values='' ;;
    'explain --context-length'|'explain -c') kind=list values='' ;;
    'explain --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'explain --weight-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'explain --head-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'explain --kv-cache-dtype') kind=list values='f32 bf16 int8' ;;
    'explain --color') kind=list values='auto always never' ;;
    'plan --ranks') kind=list values='' ;;
    'plan --machine') kind=list values='' ;;
    'plan --batch-size'|'plan -b') kind=list values='' ;;
    'plan --context-length'|'plan -c') kind=list values='' ;;
    'plan --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'plan --color') kind=list values='auto always never' ;;
    'inspect --show') kind=list values='' ;;
    'inspect --prompt'|'inspect -p') kind=list values='' ;;
    'inspect --device') kind=list values='' ;;
    'inspect --seed'|'inspect -s') kind=list values='' ;;
    'inspect --batch-size'|'inspect -b') kind=list values='' ;;
    'inspect --context-length'|'inspect -c') kind=list values='' ;;
    'inspect --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'inspect --weight-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'inspect --head-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'inspect --kv-cache-dtype') kind=list values='f32 bf16 int8' ;;
    'inspect --threads'|'inspect -t') kind=list values='' ;;
    'inspect --color') kind=list values='auto always never' ;;
    'doc --color') kind=list values='auto always never' ;;
    'tensors --color') kind=list values='auto always never' ;;
    'verify --device') kind=list values='' ;;
    'verify --batch-size'|'verify -b') kind=list values='' ;;
    'verify --context-length'|'verify -c') kind=list values='' ;;
    'verify --mesh') kind=list values='' ;;
    'verify --seed'|'verify -s') kind=list values='' ;;
    'verify --against') kind=list values='' ;;
    'verify --dtypes') kind=list values='' ;;
    'verify --sizes') kind=list values='' ;;
    'verify --inputs') kind=list values='' ;;
    'verify --lr') kind=list values='' ;;
    'verify --steps') kind=list values='' ;;
    'verify --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'verify --weight-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'verify --head-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'verify --kv-cache-dtype') kind=list values='f32 bf16 int8' ;;
    'verify --threads'|'verify -t') kind=list values='' ;;
    'verify --color') kind=list values='auto always never' ;;
    'bench --mode') kind=list values='train decode' ;;
    'bench --device') kind=list values='' ;;
    'bench --prefix-length') kind=list values='' ;;
    'bench --batch-size'|'bench -b') kind=list values='' ;;
    'bench --context-length'|'bench -c') kind=list values='' ;;
    'bench --lr') kind=list values='' ;;
    'bench --steps') kind=list values='' ;;
    'bench --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'bench --weight-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'bench --head-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'bench --kv-cache-dtype') kind=list values='f32 bf16 int8' ;;
    'bench --threads'|'bench -t') kind=list values='' ;;
    'bench --color') kind=list values='auto always never' ;;
    'compare --baseline') kind=list values='' ;;
    'compare --color') kind=list values='auto always never' ;;
    'report --baseline') kind=list values='' ;;
    'report --color') kind=list values='auto always never' ;;
    'log --color') kind=list values='auto always never' ;;
    'diff --batch-size'|'diff -b') kind=list values='' ;;
    'diff --context-length'|'diff -c') kind=list values='' ;;
    'diff --lr') kind=list values='' ;;
    'diff --steps') kind=list values='' ;;
    'diff --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'diff --color') kind=list values='auto always never' ;;
    'transfer --batch-size'|'transfer -b') kind=list values='' ;;
    'transfer --context-length'|'transfer -c') kind=list values='' ;;
    'transfer --lr') kind=list values='' ;;
    'transfer --steps') kind=list values='' ;;
    'transfer --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'transfer --color') kind=list values='auto always never' ;;
    'coordcheck --vary') kind=list values='' ;;
    'coordcheck --steps') kind=list values='' ;;
    'coordcheck --max-ratio') kind=list values='' ;;
    'coordcheck --seed'|'coordcheck -s') kind=list values='' ;;
    'coordcheck --num-seeds') kind=list values='' ;;
    'coordcheck --batch-size'|'coordcheck -b') kind=list values='' ;;
    'coordcheck --context-length'|'coordcheck -c') kind=list values='' ;;
    'coordcheck --lr') kind=list values='' ;;
    'coordcheck --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'coordcheck --threads'|'coordcheck -t') kind=list values='' ;;
    'coordcheck --color') kind=list values='auto always never' ;;
    'import --name') kind=list values='' ;;
    'import --batch-size'|'import -b') kind=list values='' ;;
    'import --context-length'|'import -c') kind=list values='' ;;
    'import --lr') kind=list values='' ;;
    'import --steps') kind=list values='' ;;
    'import --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'import --color') kind=list values='auto always never' ;;
    'export --format') kind=list values='' ;;
    'export --type') kind=list values='' ;;
    'export --color') kind=list values='auto always never' ;;
    'quantize --type') kind=list values='' ;;
    'quantize --head-type') kind=list values='' ;;
    'quantize --color') kind=list values='auto always never' ;;
    'emit --target') kind=list values='c cuda torch web' ;;
    'emit --mode') kind=list values='decode train sample' ;;
    'emit --profile') kind=list values='hosted freestanding' ;;
    'emit --weights') kind=list values='array incbin' ;;
    'emit --context-length'|'emit -c') kind=list values='' ;;
    'emit --lr') kind=list values='' ;;
    'emit --steps') kind=list values='' ;;
    'emit --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'emit --weight-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'emit --head-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'emit --kv-cache-dtype') kind=list values='f32 bf16 int8' ;;
    'emit --color') kind=list values='auto always never' ;;
    'tokenize --json-field') kind=list values='' ;;
    'tokenize --context-length'|'tokenize -c') kind=list values='' ;;
    'tokenize --append-token') kind=list values='' ;;
    'tokenize --token-bits') kind=list values='16 32' ;;
    'tokenize --threads'|'tokenize -t') kind=list values='' ;;
    'tokenize --chunk-size') kind=list values='' ;;
    'tokenize --color') kind=list values='auto always never' ;;
    'tokenizer --vocab-size') kind=list values='' ;;
    'tokenizer --special-token') kind=list values='' ;;
    'tokenizer --pattern') kind=list values='' ;;
    'tokenizer --min-frequency') kind=list values='' ;;
    'tokenizer --color') kind=list values='auto always never' ;;
    'init --seed'|'init -s') kind=list values='' ;;
    'init --batch-size'|'init -b') kind=list values='' ;;
    'init --context-length'|'init -c') kind=list values='' ;;
    'init --lr') kind=list values='' ;;
    'init --steps') kind=list values='' ;;
    'init --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'init --color') kind=list values='auto always never' ;;
    'forward --outputs') kind=list values='' ;;
    'forward --device') kind=list values='' ;;
    'forward --context-length'|'forward -c') kind=list values='' ;;
    'forward --seed'|'forward -s') kind=list values='' ;;
    'forward --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'forward --weight-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'forward --head-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'forward --kv-cache-dtype') kind=list values='f32 bf16 int8' ;;
    'forward --threads'|'forward -t') kind=list values='' ;;
    'forward --color') kind=list values='auto always never' ;;
    'fmt --color') kind=list values='auto always never' ;;
    'lsp --color') kind=list values='auto always never' ;;
    'dump --after') kind=list values='' ;;
    'dump --mode') kind=list values='forward train decode eval update gather step refine' ;;
    'dump --target') kind=list values='c cuda' ;;
    'dump --mesh') kind=list values='' ;;
    'dump --batch-size'|'dump -b') kind=list values='' ;;
    'dump --context-length'|'dump -c') kind=list values='' ;;
    'dump --lr') kind=list values='' ;;
    'dump --steps') kind=list values='' ;;
    'dump --precision') kind=list values='f32 bf16 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary' ;;
    'dump --weight-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'dump --head-dtype') kind=list values='f32 bf16 int8 int4' ;;
    'dump --kv-cache-dtype') kind=list values='f32 bf16 int8' ;;
    'dump --color') kind=list values='auto always never' ;;
    'completion --color') kind=list values='auto always never' ;;
    *' --set')
        kind=set
        for spec in "${words[@]}"; do
            case $spec in *.moe | *.moe:*) break ;; esac
            [ -d "$spec" ] && break
        done
        values=$(moec reference options "$spec" 2>/dev/null | sed 's/$/=/')
        ;;
    *)
        case $word in
        -*) kind=list values=$flags ;;
        *.moe:*) kind=model values=$(moec reference models "${word%:*}" 2>/dev/null) ;;
        esac ;;
    esac
}

_moec() {
    local line=${COMP_LINE:0:COMP_POINT} word previous command flags values kind spec
    local -a words
    word=${line##*[[:space:]]}
    read -ra words <<<"${line%"$word"}"
    command=${words[1]-}
    previous=${words[${#words[@]} - 1]-}
    COMPREPLY=()
    if [ ${#words[@]} -le 1 ]; then
        COMPREPLY=($(compgen -W 'train sweep eval generate serve sample check explain plan inspect doc tensors verify bench compare report log diff transfer coordcheck import export quantize emit tokenize tokenizer init forward fmt lsp dump completion help version' -- "$word"))
        return
    fi
    _moec_tables
    case $kind in
    file)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        ;;
    model) COMPREPLY=($(compgen -W "$values" -- "${word##*:}")) ;;
    set)
        compopt -o nospace 2>/dev/null
        COMPREPLY=($(compgen -W "$values" -- "$word"))
        ;;
    *) COMPREPLY=($(compgen -W "$values" -- "$word")) ;;
    esac
}

complete -F _moec moec
