"""Writes the results of tests/gpu.sh, FOLDER/results.jsonl, to FOLDER/report.md and report.json: gpu_report.py FOLDER. Exits with 1
if an output disagrees."""

import json
import os
import sys

FOLDER = sys.argv[1]


def read_results():
    """Rows by kind. The last of several equal measurements counts; a truncated line is skipped."""
    found = {}
    with open(os.path.join(FOLDER, "results.jsonl"), errors="replace") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            key = tuple(row.get(name) for name in ("stage", "model", "precision", "variant", "name", "tool", "line"))
            if row["kind"] == "torch":
                key = row["result"].get("name")
            found.setdefault(row["kind"], {})[key] = row
    return {kind: list(rows.values()) for kind, rows in found.items()}


def verdict_of(row):
    """True or False if outputs were compared, None otherwise."""
    if row["result"]:
        return row["result"]["agrees"]
    return None if row["why"] == "out of time" else False


def figure(value, form="{:.3g}"):
    return "-" if value is None else form.format(value)


def quotient(one, other):
    return one / other if one is not None and other else None


def share_of_kernels(result, words):
    """Seconds of the kernels whose names begin with one of the words."""
    rows = (result or {}).get("kernels", [])
    found = [row["microseconds"] for row in rows if row["name"].startswith(words)]
    return sum(found) * 1e-6 if found else None


def area(positions, heights, begin, end):
    """Integral of the piecewise linear function through the points, between two positions in their range."""
    points = [point for point in zip(positions, heights) if begin <= point[0] <= end]
    if points[-1][0] < end:
        after = next(i for i, position in enumerate(positions) if position > end)
        share = (end - positions[after - 1]) / (positions[after] - positions[after - 1])
        points.append((end, heights[after - 1] + share * (heights[after] - heights[after - 1])))
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in zip(points, points[1:]))


class Report:
    def __init__(self):
        self.lines = []
        found = read_results()
        self.device = (found.get("device") or [{}])[-1]
        self.stages, self.starts = found.get("stage", []), found.get("start", [])
        self.comparisons = found.get("compare", [])
        for row in self.comparisons:
            row["agrees"] = verdict_of(row)
        self.wanted = sum(row["count"] for row in found.get("wanted", []))
        self.speeds = [row for row in found.get("speed", [])]
        self.torch = [row["result"] for row in found.get("torch", [])]
        self.torch_log = (found.get("torch_log") or [{"why": "Not run."}])[-1]["why"]
        self.determinism, self.emitted, self.nccl = ((found.get(kind) or [None])[-1] for kind in ("determinism", "emitted", "nccl"))
        self.units, self.memory = found.get("unit", []), found.get("memory", [])
        self.variants = [row["line"].split() for row in found.get("variants", [])]
        self.bad = {p: [row for row in self.comparisons if row["precision"] == p and row["agrees"] is False] for p in ("f32", "bf16")}

    def say(self, *lines):
        self.lines.extend(lines)

    def speed(self, name, precision):
        """The result of a measurement, if the report may show it."""
        for row in self.speeds:
            if row["name"] == name and row["precision"] == precision and not self.bad[precision]:
                return row["result"]
        return None

    def peer(self, name):
        for row in self.torch:
            if row.get("name") == name and row.get("agrees"):
                return row
        return None

    def correctness(self):
        ran = [row for row in self.comparisons if row["agrees"] is not None]
        bad = sum(row["agrees"] is False for row in ran)
        self.say("## Correctness", "")
        first = sum(row["stage"] == "first" for row in self.comparisons)
        self.say(f"{len(ran)} of {self.wanted + first} programs were compared with their definition (`moec verify`); {bad} disagree.")
        self.say("Each cell has the error of the tensor closest to its limit, and that limit.", "")
        self.say("| model | precision | variant | outputs | gradients | decoding | |", "|---|---|---|---|---|---|---|")
        for row in self.comparisons:
            result = row["result"] or {}
            cells = []
            for kind in ("outputs", "gradients", "decoding"):
                one = result.get(kind)
                cells.append(f"{one['error']:.1e} of {one['limit']:.1e}" if one else "")
            verdict = {True: "", False: "DISAGREES ", None: "not run: "}[row["agrees"]] + row.get("why", "")
            if row.get("agrees_with"):
                verdict += f" agrees with {row['agrees_with']}"
            self.say(f"| {row['model']} | {row['precision']} | {row['variant']} | {' | '.join(cells)} | {verdict} |")
        self.say("")
        bad_units = [row for row in self.units if row["code"]]
        if self.units:
            self.say(f"{len(self.units) - len(bad_units)} of {len(self.units)} unit tests passed on the driver.", "")
        self.say(*(f"- FAILED: {row['name']}: {row['why']}" for row in bad_units))
        self.say(*(f"- {row['tool']}: {'no finding' if row['code'] == 0 else 'exit code %d' % row['code']} ({row['why']})" for row in self.memory))
        for what, row in (("Two runs", self.determinism), ("The emitted program and moec generate", self.emitted),
                          ("Two processes through NCCL and one process", self.nccl)):
            same = {True: "the same", False: "NOT THE SAME", None: "not run"}[row["same"] if row else None]
            self.say(f"{what}: {same} ({row['why'] if row else 'its stage was not run'}).", "")

    def heads(self, prefix):
        """Layers with few and with many key heads after a prefix."""
        return [self.speed(f"{model} after {prefix}", "bf16") for model in ("sigma_1b5", "standard_1b5")]

    def saved(self, prefix, words):
        few, many = (share_of_kernels(result, words) for result in self.heads(prefix))
        return 1 - few / many if few and many else None

    def prefixes(self):
        found = (row["name"].split(" after ") for row in self.speeds if row["result"] and " after " in row["name"])
        lengths = {int(parts[1]) for parts in found}
        return [length for length in sorted(lengths) if all(self.heads(length))]

    def few_heads(self):
        """The tables of Sigma (arXiv 2501.13629): attention kernels at a prefix, and whole layers over prefix and output."""
        lengths = self.prefixes()
        if not lengths:
            return
        self.say("## 32/4/16 and 32/16/16 heads, four layers", "", "Microseconds per token of attention over the prefix.", "")
        self.say("| prefix | few | many | saved |", "|---|---|---|---|")
        step = ("attend_step",)
        for length in lengths:
            times = [share_of_kernels(result, step) for result in self.heads(length)]
            cells = [figure(1e6 * time, "{:.1f}") if time else "-" for time in times]
            self.say(f"| {length} | {' | '.join(cells)} | {figure(self.saved(length, step), '{:.1%}')} |")
        self.say("", "Time saved by whole layers, by prefix (rows) and output (columns). Between the measured lengths the time per token is", "interpolated linearly.", "")
        self.say(f"| prefix | {' | '.join(map(str, lengths))} |", "|---" * (len(lengths) + 1) + "|")
        for prefix in lengths:
            cells = [figure(self.saved_over(prefix, prefix + output, lengths), "{:.1%}") for output in lengths]
            self.say(f"| {prefix} | {' | '.join(cells)} |")
        self.say("")

    def saved_over(self, begin, end, lengths):
        if end > lengths[-1]:
            return None
        few, many = (area(lengths, [1 / self.heads(length)[which]["tokens_per_second"] for length in lengths], begin, end) for which in (0, 1))
        return 1 - few / many

    def targets(self):
        dense, mixture = self.speed("GPT-2 124M, training", "bf16"), self.speed("mixture of experts", "bf16")
        peer = self.peer("GPT-2 124M, training, compiled")
        rows = []

        def row(what, target, measured, form, least=True):
            met = None if measured is None else (measured >= target if least else measured <= target)
            ratio = quotient(measured, target)
            rows.append({"what": what, "target": target, "measured": measured, "ratio": ratio, "met": met})
            word = {True: "met", False: "NOT MET", None: "not measured"}[met]
            sign = "at least" if least else "at most"
            self.say(f"| {what} | {sign} {form.format(target)} | {figure(measured, form)} | {figure(ratio, '{:.2f}')} | {word} |")

        self.say("## Targets", "", "| measurement | target | measured | measured / target | |", "|---|---|---|---|---|")
        rate = dense and quotient(dense["step_product_gflop"], dense["step_seconds"])
        row("GPT-2 124M, training, bf16: share of the product rate", 0.55, dense and quotient(rate, dense.get("ceiling_gflops")), "{:.3g}")
        tokens = dense and dense["median_tokens_per_second"]
        row("the same, relative to compiled PyTorch", 1.0, quotient(tokens, peer and peer["tokens_per_second"]), "{:.3g}")
        # The layer without the optimizer, which updates the parameters of all experts.
        update = share_of_kernels(mixture, ("update",)) or 0
        seconds = mixture and mixture.get("kernels_seconds", 0) - update
        row("mixture of experts, TFLOP/s forward and backward", 207, mixture and quotient(mixture["step_product_gflop"] / 1e3, seconds), "{:.4g}")
        # The launch overhead matters more for smaller models.
        for name, precision in (("1.5B", "bf16"), ("238M", "bf16"), ("238M", "f32")):
            decode = self.speed(f"{name}, decoding", precision)
            share = decode and decode.get("share_of_bandwidth")
            row(f"decoding {name}, batch 1, {precision}: share of the copy bandwidth", 0.85, share, "{:.3g}")
        row("attention of 32/4/16 heads against 32/16/16 after 32k: time saved", 0.25, self.saved(32768, ("attend_step",)), "{:.3g}")
        gated, plain = (self.speed(f"1.7B{gate}, training", "bf16") for gate in (" with a gate at sdpa", ""))
        share = quotient(gated and gated["median_tokens_per_second"], plain and plain["median_tokens_per_second"])
        row("1.7B with a gate at sdpa: tokens/s relative to equal parameters without a gate", 0.98, share, "{:.3g}")
        large, peer = self.speed("GPT-2 1.5B, training", "bf16"), self.peer("GPT-2 1.5B, training, compiled")
        row("GPT-2 1.5B, training, relative to compiled PyTorch", 1.0,
            quotient(large and large["median_tokens_per_second"], peer and peer["tokens_per_second"]), "{:.3g}")
        for one in self.starts or [{"name": "gpt2", "result": None}]:
            result = one["result"] or {}
            row(f"{one['name']}: from spec to first step, cold, seconds", 10, result.get("start_cold_seconds"), "{:.3g}", least=False)
            row("the same from the cache", 0.5, result.get("start_warm_seconds"), "{:.3g}", least=False)
        self.say("")
        return rows

    def steps(self):
        self.say("## Whole steps", "")
        self.say("Medians after warm-up. FLOPs are those of matrix products, without attention scores; the backward pass counts as twice the forward pass.")
        self.say("The peak is a cuBLASLt product of size 8192 in the same precision, measured before and after the steps of the same run.")
        self.say("Decoding: bytes read per token, relative to a copy of 1 GiB (reads and writes).", "")
        self.say("| model | precision | tokens/s | % of peak | peak | start, cold and warm |", "|---|---|---|---|---|---|")
        for one in self.speeds:
            result, name, precision = one["result"], one["name"], one["precision"]
            if not result or self.bad[precision]:
                why = f"{len(self.bad[precision])} outputs disagree" if self.bad[precision] else one["why"]
                self.say(f"| {name} | {precision} | not reported: {why} | | | |")
            elif result["graph"] == "decode":
                ceiling = figure(result.get("ceiling_gbytes_per_second"), "{:.0f} GB/s")
                self.say(f"| {name} | {precision} | {result['tokens_per_second']:.1f} | {figure(result.get('share_of_bandwidth'), '{:.1%}')} | {ceiling} | |")
            else:
                rate = quotient(result["step_product_gflop"], result["step_seconds"])
                share = figure(quotient(rate, result.get("ceiling_gflops")), "{:.1%}")
                ceiling = figure(quotient(result.get("ceiling_gflops"), 1e3), "{:.0f} TFLOP/s")
                starts = f"{result['start_cold_seconds']:.2f} s, {result['start_warm_seconds']:.2f} s"
                self.say(f"| {name} | {precision} | {result['median_tokens_per_second']:.0f} | {share} | {ceiling} | {starts} |")
        self.say("")
        for one in self.speeds + self.starts:
            if one["result"] and "startup" in one["result"]:
                self.say(f"{one['name']}: cold {one['result']['start_cold']}; warm {one['result']['start_warm']}.")
        self.say("")

    def peers(self):
        self.say("## PyTorch on the same device", "")
        if not self.torch:
            self.say(self.torch_log, "")
            return
        self.say("| measurement | tokens/s | TFLOP/s | milliseconds | |", "|---|---|---|---|---|")
        for row in self.torch:
            cells = [figure(row.get(key), form) for key, form in (("tokens_per_second", "{:.0f}"), ("tflops", "{:.1f}"), ("milliseconds", "{:.3f}"))]
            if not row.get("agrees"):
                cells = ["-"] * 3
            self.say(f"| {row['name']} | {' | '.join(cells)} | {row.get('note', '')}{'' if row.get('agrees') else ' not reported: its outputs disagree'} |")
        self.say("")

    def kernels(self):
        self.say("## Single kernels", "", "Medians of eight launches in a row; small inputs are read from the cache.", "")
        for one in self.speeds:
            rows = (one["result"] or {}).get("kernels", [])
            if not rows or self.bad[one["precision"]]:
                continue
            self.say(f"{one['name']}, {one['precision']}: {1e3 * one['result']['kernels_seconds']:.3f} ms in total", "")
            self.say("| kernel | launches | microseconds | share | TFLOP/s |", "|---|---|---|---|---|")
            for row in rows[:12]:
                speed = figure(quotient(row.get("gflops"), 1e3), "{:.1f}")
                self.say(f"| {row['name']} | {row['launches']} | {row['microseconds']:.1f} | {row['share']:.1%} | {speed} |")
            self.say("")

    def forms(self):
        rows = self.variants
        if not rows:
            return
        selected = ", ".join(f"{sum(row[2] == form for row in rows)} {form}" for form in ("mma", "wgmma", "wide"))
        self.say("## Kernel variants", "", f"Microseconds per kernel and shape; inf: the variant does not exist or disagrees. Selected: {selected}.", "")
        self.say("| kernel | selected | mma | wgmma | wide |", "|---|---|---|---|---|")
        rows.sort(key=lambda row: -float(row[3]))
        for kernel, _, *figures in rows[:24]:
            self.say(f"| {kernel} | {' | '.join(figures)} |")
        self.say("")

    def clocks(self):
        self.say("## Stages", "", "| stage | | seconds |", "|---|---|---|")
        for row in self.stages:
            self.say(f"| {row['stage']} | {row['end']}{', exit code ' + str(row['code']) if row['code'] else ''} | {row['seconds']} |")
        self.say("")

    def write(self):
        device = self.device
        trial = " A test of the script with tiny sizes: the numbers have no meaning." if device.get("quick") else ""
        self.say(f"# {device.get('when')} UTC, {device.get('device')}", "", f"moec {device.get('commit')}.{trial}", "")
        self.clocks()
        self.correctness()
        rows = self.targets()
        self.steps()
        self.peers()
        self.few_heads()
        self.kernels()
        self.forms()
        bad = sum(map(len, self.bad.values()))
        self.say(f"{bad} outputs disagree.")
        with open(os.path.join(FOLDER, "report.md"), "w") as file:
            file.write("\n".join(self.lines) + "\n")
        with open(os.path.join(FOLDER, "report.json"), "w") as file:
            reported = [row for row in self.speeds if not self.bad[row["precision"]]]
            json.dump({"device": device, "stages": self.stages, "comparisons": self.comparisons, "determinism": self.determinism,
                       "emitted": self.emitted, "nccl": self.nccl, "targets": rows, "speeds": reported, "starts": self.starts, "torch": self.torch},
                      file, indent=1)
        print("\n".join(self.lines))
        bad = bad or any(row["code"] for row in self.units + self.memory)
        return bad or any(row and row["same"] is False for row in (self.determinism, self.emitted, self.nccl))


sys.exit(1 if Report().write() else 0)
