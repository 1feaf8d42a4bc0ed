# Reads names, one per line. Prints a spec in which name i has role (i + rotation) % 15. Every third rotation reads real inputs
# with these names instead of tokens.
function role(i) { return (i + rotation) % 15 }

{ name[NR] = $1 }

END {
    print "use decoder\n\noptimizer kept {"
    for (i = 1; i <= NR; i++)
        if (role(i) == 7) {
            printf "  state %s = 0\n  update %s = 0.5 * %s + grad\n", name[i], name[i], name[i]
            moved = moved " + 0.001 * " name[i]
        }
    printf "  update weight = weight - lr * (grad%s)\n}\n\nschedule slow {\n", moved
    for (i = 1; i <= NR; i++)
        if (role(i) == 8 && name[i] != "step" && name[i] != "steps" && name[i] != "rate") {
            printf "  %s = 0.001 * step\n", name[i]
            slowed = slowed " + " name[i]
        }
    printf "  rate = 1%s\n}\n\n", slowed
    print "layer scaled(in_[at_, of_]) -> out_[at_, of_] {\n  param weight[of_] ~ ones\n  out_[at_, of_] = 0.5 * in_[at_, of_] * weight[of_]\n}\n"
    for (i = 1; i <= NR; i++) {
        if (role(i) == 10)
            printf "layer p%d_(in_[at_, of_]) -> out_[at_, of_] {\n  option %s: real = 1\n  out_[at_, of_] = in_[at_, of_] * %s\n}\n\n", i, name[i], name[i]
        if (role(i) == 11)
            printf "layer %s(in_[at_, of_]) -> out_[at_, of_] { out_[at_, of_] = 0.9 * in_[at_, of_] }\n\n", name[i]
        if (role(i) == 12) model = name[i]
        if (role(i) == 13) { goals = toks; toks = name[i] }
    }
    print "layer whole {\n  option train: layer = train { batch = 1, context = 2, optimizer = kept, schedule = slow }"
    print "  axis dd = 2\n  axis vv = 3\n  sequence ss = train.context\n"
    print "  param wte[vv, dd] ~ normal(1)"
    if (rotation % 3 == 1)
        print "  input given_[ss, dd]: float\n  x0[ss, dd] = given_[ss, dd]"
    else {
        if (!toks) toks = "toks"
        if (!goals) goals = "goals"
        print "  input " toks "[ss]: token\n  input " goals "[ss]: next\n  x0[ss, dd] = wte[" toks "[ss], dd]"
    }
    at = "x0"
    for (i = 1; i <= NR; i++) add(name[i], role(i), "x" i "_", "p" i "_")
    printf "  logits[ss, vv] = sum[dd] rms_norm@last(%s)[ss, dd] * wte[vv, dd]\n  output logits\n", at
    wanted = rotation % 3 == 1 ? "logits[ss, 1]" : "logits[ss, " goals "[ss]]"
    print "  loss = mean[batch, ss] ((logsumexp[vv] logits[ss, vv]) - " wanted ")\n}\n\nmodel " (model ? model : "m") " = whole"
}

# Adds a statement from the tensor `at`, with an object named n, to the tensor t, which becomes the next `at`.
function add(n, r, t, p) {
    if (r == 0)
        printf "  param %s[dd] ~ normal(0.1)\n  %s[ss, dd] = %s[ss, dd] + %s[dd]\n", n, t, at, n
    else if (r == 1) {
        printf "  state %s[dd] = 0.1\n  %s[ss, dd] = %s[ss, dd] - %s[dd]\n", n, t, at, n
        printf "  update %s[dd] = 0.9 * %s[dd] + (mean[batch, ss] %s[ss, dd])\n", n, n, t
    } else if (r == 2) {
        printf "  %s[ss, dd] = 0.9 * %s[ss, dd]\n", n, at
        t = n
    } else if (r == 3 && n !~ /^(step|lr|nats|total|seconds|grad_norm|val_loss)$/) {
        printf "  probe %s = mean[batch, ss, dd] %s[ss, dd]\n", n, at
        t = at
    } else if (r == 4)
        printf "  axis %s = 3\n  param %s[dd, %s]\n  %s[ss, dd] = %s[ss, dd] + (sum[%s] %s[dd, %s])\n", n, p, n, t, at, n, p, n
    else if (r == 5)
        printf "  %s[ss, dd] = %s[ss, dd] + 0.1 * (sum[%s] wte[%s, dd])\n", t, at, n, n
    else if (r == 6)
        printf "  %s = %s + scaled@%s(%s)\n", t, at, n, at
    else if (r == 9) {
        printf "  %s[ss, dd] = 0.3 * (sum[dd] %s[ss, dd]) + %s[ss, dd]\n  output %s\n", n, at, at, n
        t = at
    } else if (r == 10)
        printf "  %s = %s_(%s; %s = 0.9)\n", t, substr(p, 1, length(p) - 1), at, n
    else if (r == 11)
        printf "  %s[ss, dd] = %s[ss, dd] + (0.1 * %s(%s))[ss, dd]\n", t, at, n, at
    else if (r == 13 && rotation % 3 == 1)
        printf "  input %s[ss, dd]: real\n  %s[ss, dd] = %s[ss, dd] + 0.1 * %s[ss, dd]\n", n, t, at, n
    else if (r == 14)
        printf "  %s = %s\n  repeat %s[ii < 2] {\n    param %s[dd] ~ normal(0.1)\n    %s[ss, dd] = %s[ss, dd] + %s[dd]\n  }\n", t, at, n, p, t, t, p
    else
        t = at
    at = t
}
