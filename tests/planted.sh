#!/bin/sh
# tests/planted.sh [WORD]: plants faults in copies of the standard library, one at a time, and reports the test that catches
# each. The faults are in optimizers, schedules, losses, auxiliary losses, states of layers, dropout, every initialization, and
# the average of the weights in the compiler. With WORD, only lines that contain it. Changes that leave the result equal are not
# faults. Examples are a factor of Shampoo's statistics, which the size of its update removes, and the side on which Muon's Gram
# matrix is formed. Exits with 1 if a fault is missed, if an edit changes nothing because its pattern no longer matches, or if
# the compiler rejects the result. Not part of `make test`; `make units` builds the tests that it runs.
. "$(dirname "$0")/begin.sh"
word=${1:-}
tests="test_losses test_initial test_rules" # by time
here=$work/library
programs=$BUILD/tests/unit
planted=0 missed=0 unchanged=0

# first_failure: the name of the first test that fails on the copy, or nothing.
first_failure() {
    for test in $tests; do
        [ -x "$programs/$test" ] || continue
        MOEC_RULES=$here/rules.moe "$programs/$test" >"$work/out" 2>&1 && continue
        sed -n 's/^\[  FAILED  \] \(test_[a-z_]*\)$/\1/p' "$work/out" | head -n 1
        return
    done
}

fresh() {
    rm -rf "$here"
    mkdir "$here"
    cp stdlib/*.moe tests/rules.moe "$here"
}

# verdict FILE CHANGE: runs the tests on the copy.
verdict() {
    planted=$((planted + 1))
    caught=$(first_failure) otherwise=MISSED
    if grep -q '\.moe:[0-9]*:[0-9]*: error\(\[E[0-9]*\]\)\{0,1\}:' "$work/out"; then caught="" otherwise=REFUSED; fi
    [ -n "$caught" ] || { missed=$((missed + 1)); caught=$otherwise; }
    printf '%-20s  %s: %s\n' "$caught" "$1" "$2"
}

# change FROM TO SED: false, and counted, if the expression changes nothing.
change() {
    sed "$3" "$1" >"$2"
    cmp -s "$1" "$2" || return 0
    printf '%-20s  %s: %s\n' "NO CHANGE" "$1" "$3"
    unchanged=$((unchanged + 1))
    return 1
}

# plant FILE SED: one fault in the standard library.
plant() {
    case "$1 $2" in *"$word"*) ;; *) return 0 ;; esac
    fresh
    ! change "stdlib/$1.moe" "$here/$1.moe" "$2" || verdict "$1" "$2"
}

# plant_compiler FILE SED: one fault in a file of compiler/elaborate; a copy of test_rules is linked with it.
plant_compiler() {
    case "$1 $2" in *"$word"*) ;; *) return 0 ;; esac
    fresh
    change "compiler/elaborate/$1.c" "$work/$1.c" "$2" || return 0
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -O0 -w -Icompiler -Iruntime -Iruntime/abi -I"$BUILD" -o "$work/test_rules" \
        -I"$PWD/tests/unit" tests/unit/test_rules.c "$work/$1.c" "$BUILD/libmoec_compiler.a" -lcmocka -ljansson -lpcre2-8 -lutf8proc -lm ||
        wrong "$1 does not compile with: $2"
    programs=$work
    verdict "$1.c" "$2"
    programs=$BUILD/tests/unit
}

# Every `~` of a file and every declaration of parameters without one, by line; a line that ends with a comma continues.
plant_starts() {
    for line in $(awk '/^ *param / || more { print FNR; more = /,$/ }' "stdlib/$1.moe"); do
        text=$(sed -n "${line}p" "stdlib/$1.moe")
        count=$(printf '%s\n' "$text" | grep -o '~' | wc -l)
        case $text in *'~'* | *,) ;; *) plant "$1" "${line}s/ *\(#.*\)*\$/ ~ zeros/" ;; esac
        for number in $(seq "$count"); do
            case $(printf '%s\n' "$text" | sed "s/^\([^~]*~\)\{$number\} *//") in
            zeros*) plant "$1" "${line}s/~ *zeros/~ ones/$(printf '%s\n' "$text" | nth zeros "$number")" ;;
            ones*) plant "$1" "${line}s/~ *ones/~ zeros/$(printf '%s\n' "$text" | nth ones "$number")" ;;
            normal*) plant "$1" "${line}s/~ *normal(/~ normal(2 * /$(printf '%s\n' "$text" | nth normal "$number")" ;;
            uniform*) plant "$1" "${line}s/~ *uniform(/~ uniform(-1 + /$(printf '%s\n' "$text" | nth uniform "$number")" ;;
            *) plant "$1" "${line}s/~ *\([0-9]\)/~ 0.1 + \1/" ;;
            esac
        done
    done
}

# nth KIND NUMBER <TEXT: of the first NUMBER initializations of the text, how many are of that kind.
nth() {
    awk -v kind="$1" -v number="$2" '{
        parts = split($0, part, "~ *")
        for (i = 2; i <= number + 1 && i <= parts; i++) count += part[i] ~ "^" kind
        print count
    }'
}

for test in $tests; do [ -x "$programs/$test" ] || wrong "build $programs/$test first: make units"; done
fresh
[ -z "$(first_failure)" ] || { cat "$work/out"; wrong "a test fails without a fault"; }

# file | sed expression
while IFS='|' read -r file expression; do
    plant "$file" "$expression"
done <<'END_OF_FAULTS'
sgd|s/share = weight_decay \* matrix/share = 2 * weight_decay * matrix/
sgd|s/share = weight_decay }/share = 2 * weight_decay }/
sgd|s/\(momentum: .*=\) 0.9 /\1 0.99 /
sgd|s/update m = momentum \* m + clip/update m = momentum * m - clip/
sgd|s/clip \* grad/grad/g
sgd|s/(momentum \* m + clip \* grad/(m + clip * grad/
sgd|s/weight - lr \* m$/weight - lr * (m + share * weight)/
sgd|s/weight_decay_scope == all/weight_decay_scope != all/
adamw|s/beta1^step/beta1^(step + 1)/
adamw|s/beta2^step/beta2^(step - 1)/
adamw|s/(1 - beta1) \* g/g/
adamw|s/(1 - beta2) \* g \* g/(1 - beta2) * abs(g)/
adamw|s/(sqrt(v \* unbias2) + eps)/sqrt(v * unbias2 + eps)/
adamw|s/+ share \* weight/- share * weight/
adamw|s/weight_decay \* matrix/weight_decay/
adamw|s/weight_decay_scope == all/weight_decay_scope != all/
adamw|s/\(beta1: .*=\) 0.9 /\1 0.95 /
adamw|s/\(beta2: .*=\) 0.95/\1 0.999/
adamw|s/\(weight_decay: .*=\) 0.1/\1 0.01/
adamw|s/g = clip \* grad/g = grad/
adamw|s/m \* unbias1/m/
muon|s/x = momentum \* m + (1 - momentum) \* g }/x = m + (1 - momentum) * g }/
muon|s/update m = momentum \* m + (1 - momentum) \* g/update m = momentum * m + momentum * g/
muon|s/\(momentum: .*=\) 0.95/\1 0.9/
muon|s/\(ns_steps: .*=\) 5 /\1 6 /
muon|s/3.4445/3.4345/
muon|s/-4.7750/-4.7650/
muon|s/2.0315/2.0215/
muon|s/norm = sqrt(sum\[rows,columns\] x \* x)/norm = sum[rows,columns] abs(x)/
muon|s/scale = 0.2 \* sqrt(max/scale = 0.2 * sqrt(min/
muon|s/size(columns) \/ size(rows)/size(rows) \/ size(columns)/
muon|s/+ weight_decay \* weight/+ 2 * weight_decay * weight/
muon|s/g = clip \* grad/g = grad/
muon|s/\(nesterov: .*=\) true/\1 false/
shampoo|s/z = 2.5/z = 10/
shampoo|s/1.25 \* one\[n,k\] - 0.25/1.5 * one[n,k] - 0.5/
shampoo|s/\(iterations: .*=\) 20\( .*fourth root\)/\1 5\2/
shampoo|s/\(beta2: .*=\) 0.95/\1 0.9/
shampoo|s/\(momentum: .*=\) 0.9 /\1 0.95 /
shampoo|s/beta2 \* left/left/
shampoo|s/g\[rows,columns\] \* g\[j,columns\])/abs(g[rows,columns] * g[j,columns]))/
shampoo|s/beta2 \* right/right/
shampoo|s/\(eps: .*=\) 1e-4/\1 1e-3/
shampoo|s/damp_right \* (columns == j)/0/
shampoo|s/\(update_rms: .*=\) 0.2/\1 0.1/
shampoo|s/root_left\[rows,j\] \* m/root_left[rows,j] * g/
shampoo|s/+ weight_decay \* weight/+ 2 * weight_decay * weight/
shampoo|s/g = clip \* grad/g = grad/
adafactor|s/step^-decay_exponent/(step + 1)^-decay_exponent/
adafactor|s/\(decay_exponent: .*=\) 0.8/\1 0.5/
adafactor|s/\(clip_threshold: .*=\) 1 /\1 2 /
adafactor|s/max(mean\[rows\] row\[rows\], eps)/max(mean[rows] row[rows], eps)^2/
adafactor|s/newest \* (mean\[columns\]/2 * newest * (mean[columns]/
adafactor|s/(mean\[rows\] g\[rows,columns\]^2 - column/(mean[rows] g[rows,columns]^2 + column/
adafactor|s/newest \* (g^2 - all)/newest * (abs(g) - all)/
adafactor|s/max(min_scale, size_of)/max(min_scale, 2 * size_of)/
adafactor|s/1 - lr \* weight_decay \* matrix/1 - 2 * lr * weight_decay * matrix/
adafactor|s/1 - lr \* weight_decay \* matrix/1 - lr * weight_decay/
adafactor|s/max(1, long)/max(1, long^2)/
adafactor|s/g = clip \* grad/g = grad/
adafactor|s/\(min_scale: .*=\) 1e-3/\1 1/
schedules|s/(step - warmup_steps)/(step - 1 - warmup_steps)/
schedules|s/(step + 1) \/ max/step \/ max/
schedules|s/step < warmup_steps/step <= warmup_steps + 1/
schedules|s/max(1, steps - warmup_steps)/steps/
schedules|s/\(min_lr_ratio: .*=\) 0.1/\1 0/
schedules|s/0.5 \* (1 + cos/0.5 * (1 - cos/
schedules|s/^ *min_lr_ratio$/0/
schedules|s/(steps - step)/(steps - step - 1)/
schedules|s/\(decay_ratio: .*=\) 0.2/\1 0.1/
schedules|s/min_lr_ratio + (1 - min_lr_ratio) \* min/(1 - min_lr_ratio) * min/
decoder|s/logits\[s,targets\[s\]\])$/logits[s,tokens[s]])/
decoder|s/loss = mean\[batch,s\]/loss = 2 * mean[batch,s]/
decoder|s/loss = mean\[batch,s\] (logsumexp\[v\] logits\[s,v\]/loss = mean[batch,s] ((max[v] logits[s,v])/
diffusion|s/noise\[n,p\] + image/noise[n,p] - image/
diffusion|s/(1 - t\[0\]) \* image/t[0] * image/
diffusion|s/image\[n,p\])^2/image[n,p])^2 \/ 2/
moe|s/bias_update_rate \* sign(1/bias_update_rate * sign(-1/
moe|s/1 \/ experts - load\[all\])/load[all] - 1 \/ experts)/
moe|s/bias_update_rate \* sign/2 * bias_update_rate * sign/
moe|s/ranked\[s,all\] = p\[s,all\] + bias/ranked[s,all] = p[s,all] - bias/
moe|s/chosen\[s,all\] \/ top_k /chosen[s,all] /
moe|s/aux_loss_coef \* experts \*/aux_loss_coef */
moe|s/(mean\[batch,s\] part/(mean[batch,s] p/
moe|s/stop_gradient(share\[all\])/stop_gradient(load[all])/
moe|s/(sum\[all\] p\[s,all\] + 1e-20)/1/
moe|s/step_mean(load/step_mean(2 * load/
moe|s/share = loads/share = load/
moe|s/logit\[s,all\])^2/logit[s,all])/
moe|s/aux router_z = z_loss_coef/aux router_z = 2 * z_loss_coef/
moe|s/p\[s,all\] \/ where(total/p[s,all]^2 \/ where(total/
moe|s/weight\[s,all\] = route_scale \* p\[s,all\] }/weight[s,all] = p[s,all] + p[s,all] }/
moe|s/weight\[s,all\] = route_scale \* p\[s,all\] \//weight[s,all] = p[s,all] \//
moe|s/y = multiplier \* y/y = y/
moe|s/p\[s,all\] = sigmoid/p[s,all] = tanh/
moe|s/softmax\[all\](logit\[s,all\])/softmax[all](2 * logit[s,all])/
moe|s/state bias\[all\] = 0/state bias[all] = 0.1/
moe|s/state loads\[all\] = 1 \/ experts/state loads[all] = 0/
moe|s/max_expert_load = experts \*/max_expert_load =/
mlp|s/\(act: .*=\) silu/\1 relu/
dropout|s/uniform(x) >= p) \/ (1 - p)/uniform(x) >= p)/
dropout|s/uniform(x) >= p/uniform(x) < p/
dropout|s/draw\[0\] >= p) \/ (1 - p)/draw[0] >= p)/
dropout|s/draw\[0\] >= p/draw[0] < p/
dropout|s/draw\[u\] = uniform()/draw[u] = 0.5/
END_OF_FAULTS

plant_compiler optimizer 's/expr_number(program, 1 - e->average)/expr_number(program, e->average)/'
plant_compiler optimizer 's/expr_apply(program, OP_SUB, one, old, NULL), NULL)/one, NULL)/'
plant_compiler optimizer 's/OP_SUB, weight, average/OP_ADD, weight, average/'
plant_compiler parameter_step 's/expr_apply(program, OP_ADD, average->expr/expr_apply(program, OP_SUB, average->expr/'

tests="test_initial test_losses test_rules"
for file in stdlib/*.moe; do plant_starts "$(basename "$file" .moe)"; done
echo "$planted planted, $missed missed"
[ "$unchanged" = 0 ] || wrong "edits that change nothing: $unchanged; update their patterns"
[ "$missed" = 0 ]
