"""What tests/gpu.sh found, as report.md and report.json: gpu_report.py WORK FOLDER. Exits with 1 when an output disagrees."""

import glob
import json
import os
import sys

WORK, FOLDER = sys.argv[1:3]


def text(path, default=""):
    try:
        with open(os.path.join(WORK, path)) as file:
            return file.read().strip()
    except OSError:
        return default


def data(path):
    try:
        return json.loads(text(path))
    except ValueError:
        return None


def read_comparisons():
    """One row for each line of `all`: what it gave, or why there is nothing."""
    rows = []
    for line in text("all").splitlines():
        precision, model = line.split()[:2]
        path = "agree/" + f"{model}.{precision}".replace("/", "_").replace(":", "_")
        found = data(path + ".json")
        row = {"model": model.split("/")[-1], "precision": precision, "result": found, "agrees": None}
        if found:
            row["agrees"] = found["agrees"]
        else:
            row["why"] = (text(path + ".log").splitlines() or ["out of time"])[0]
            row["agrees"] = None if row["why"] == "out of time" or not text(path + ".code") else False
        rows.append(row)
    return rows


def read_speeds():
    rows = []
    for path in sorted(glob.glob(os.path.join(WORK, "speed", "*.name"))):
        base = "speed/" + os.path.basename(path)[: -len(".name")]
        why = (text(base + ".log").splitlines() or ["out of time"])[0]
        rows.append({"name": text(base + ".name"), "precision": text(base + ".precision"), "result": data(base + ".json"), "why": why})
    return rows


def read_torch():
    rows = []
    for line in text("torch").splitlines():
        if line.startswith("{"):
            rows.append(json.loads(line))
    return rows


def figure(value, form="{:.3g}"):
    return "-" if value is None else form.format(value)


def quotient(one, other):
    return one / other if one is not None and other else None


def share_of_kernels(result, words):
    """Seconds of the kernels whose names begin with one of the words."""
    rows = (result or {}).get("kernels", [])
    found = [row["microseconds"] for row in rows if row["name"].startswith(words)]
    return sum(found) * 1e-6 if found else None


class Report:
    def __init__(self):
        self.lines = []
        self.comparisons, self.speeds, self.torch = read_comparisons(), read_speeds(), read_torch()
        self.bad = {p: [row for row in self.comparisons if row["precision"] == p and row["agrees"] is False] for p in ("f32", "bf16")}

    def say(self, *lines):
        self.lines.extend(lines)

    def speed(self, name, precision):
        """The result of a measurement that may be told."""
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
        self.say("## What the device computes", "")
        self.say(f"{len(ran)} of {len(self.comparisons)} programs were compared with their definition (`moec compare`); {bad} disagree.")
        self.say("Each figure is the error of the tensor that comes nearest to its limit, and that limit.", "")
        self.say("| model | precision | outputs | gradients | decoding | |", "|---|---|---|---|---|---|")
        for row in self.comparisons:
            result = row["result"] or {}
            cells = []
            for kind in ("outputs", "gradients", "decoding"):
                one = result.get(kind)
                cells.append(f"{one['error']:.1e} of {one['limit']:.1e}" if one else "")
            verdict = {True: "", False: "DISAGREES ", None: "not run: "}[row["agrees"]] + row.get("why", "")
            self.say(f"| {row['model']} | {row['precision']} | {' | '.join(cells)} | {verdict} |")
        self.say("", f"Two runs: {text('twice', 'not run')}.", "")

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

        self.say("## Targets", "", "| what | target | measured | measured / target | |", "|---|---|---|---|---|")
        rate = dense and quotient(dense["step_product_gflop"], dense["step_seconds"])
        row("GPT-2 124M, training, bf16: share of the product rate", 0.55, dense and quotient(rate, dense.get("ceiling_gflops")), "{:.3g}")
        tokens = dense and dense["median_tokens_per_second"]
        row("the same beside PyTorch compiled", 1.0, quotient(tokens, peer and peer["tokens_per_second"]), "{:.3g}")
        # The layer without the optimizer, which has the parameters of all experts to do.
        update = share_of_kernels(mixture, ("update",)) or 0
        seconds = mixture and mixture.get("kernels_seconds", 0) - update
        row("mixture of experts, TFLOP/s forward and backward", 207, mixture and quotient(mixture["step_product_gflop"] / 1e3, seconds), "{:.4g}")
        # What it takes to begin a kernel weighs more the smaller the model is.
        for name, precision in (("1.5B", "bf16"), ("238M", "bf16"), ("238M", "f32")):
            decode = self.speed(f"{name}, decoding", precision)
            share = decode and decode.get("share_of_bandwidth")
            row(f"decoding {name}, batch 1, {precision}: share of the copy bandwidth", 0.85, share, "{:.3g}")
        words = ("attend_step", "attend_join")
        few = share_of_kernels(self.speed("32/4/16 heads, decoding", "bf16"), words)
        many = share_of_kernels(self.speed("32/16/16 heads, decoding", "bf16"), words)
        saved = 1 - few / many if few and many else None
        row("attention of 32/4/16 heads against 32/16/16 at 32k: time saved", 0.25, saved, "{:.3g}")
        row("from spec to first step, cold, seconds", 10, dense and dense.get("start_cold_seconds"), "{:.3g}", least=False)
        row("the same from the cache", 0.5, dense and dense.get("start_warm_seconds"), "{:.3g}", least=False)
        self.say("")
        return rows

    def steps(self):
        self.say("## Whole steps", "")
        self.say("Medians after warm-up. A multiply-add is two operations; only matrix products count, backward as twice forward, attention")
        self.say("scores not; the share is of cuBLASLt's product of 8192 in the same precision, measured before and after the steps in the same")
        self.say("run. Decoding: bytes that a token has to read against a copy of 1 GiB, read and written.", "")
        self.say("| what | precision | tokens/s | of the ceiling | ceiling | start, cold and warm |", "|---|---|---|---|---|---|")
        for one in self.speeds:
            result, name, precision = one["result"], one["name"], one["precision"]
            if not result or self.bad[precision]:
                why = f"{len(self.bad[precision])} outputs disagree" if self.bad[precision] else one["why"]
                self.say(f"| {name} | {precision} | not told: {why} | | | |")
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
        for one in self.speeds:
            if one["result"] and "ledger" in one["result"]:
                self.say(f"{one['name']}, {one['precision']}: cold {one['result']['start_cold']}; warm {one['result']['start_warm']}.")
        self.say("")

    def peers(self):
        self.say("## PyTorch on the same device", "")
        if not self.torch:
            self.say((text("torch.log", "Not installed.").splitlines() or ["It gave nothing."])[-1], "")
            return
        self.say("| what | tokens/s | TFLOP/s | milliseconds | |", "|---|---|---|---|---|")
        for row in self.torch:
            cells = [figure(row.get(key), form) for key, form in (("tokens_per_second", "{:.0f}"), ("tflops", "{:.1f}"), ("milliseconds", "{:.3f}"))]
            if not row.get("agrees"):
                cells = ["-"] * 3
            self.say(f"| {row['name']} | {' | '.join(cells)} | {row.get('note', '')}{'' if row.get('agrees') else ' its outputs disagree: not told'} |")
        self.say("")

    def kernels(self):
        self.say("## Single kernels", "", "Medians of eight launches in a row, so what fits into the cache is read from there.", "")
        for one in self.speeds:
            rows = (one["result"] or {}).get("kernels", [])
            if not rows or self.bad[one["precision"]]:
                continue
            self.say(f"{one['name']}, {one['precision']}: {1e3 * one['result']['kernels_seconds']:.3f} ms in all", "")
            self.say("| kernel | launches | microseconds | share | TFLOP/s |", "|---|---|---|---|---|")
            for row in rows[:12]:
                speed = figure(quotient(row.get("gflops"), 1e3), "{:.1f}")
                self.say(f"| {row['name']} | {row['launches']} | {row['microseconds']:.1f} | {row['share']:.1%} | {speed} |")
            self.say("")

    def forms(self):
        rows = [line.split() for line in text("twins").splitlines()]
        if not rows:
            return
        taken = ", ".join(f"{sum(row[2] == form for row in rows)} {form}" for form in ("mma", "wgmma", "wide"))
        self.say("## Kernels in several forms", "", f"Each with its shape, microseconds; inf: not there, or not right. Taken: {taken}.", "")
        self.say("| kernel | taken | mma | wgmma | wide |", "|---|---|---|---|---|")
        rows.sort(key=lambda row: -float(row[3]))
        for kernel, _, *figures in rows[:24]:
            self.say(f"| {kernel} | {' | '.join(figures)} |")
        self.say("")

    def write(self):
        device = text("device").splitlines() or [""]
        self.say(f"# {device[0]} UTC, {', '.join(device[1:]) or 'no GPU told'}", "", f"moec {text('commit')}.", "")
        self.correctness()
        rows = self.targets()
        self.steps()
        self.peers()
        self.kernels()
        self.forms()
        bad = sum(map(len, self.bad.values()))
        self.say(f"{bad} outputs disagree.")
        with open(os.path.join(FOLDER, "report.md"), "w") as file:
            file.write("\n".join(self.lines) + "\n")
        with open(os.path.join(FOLDER, "report.json"), "w") as file:
            told = [row for row in self.speeds if not self.bad[row["precision"]]]
            json.dump({"device": device, "commit": text("commit"), "comparisons": self.comparisons, "twice": text("twice"),
                       "targets": rows, "speeds": told, "torch": self.torch}, file, indent=1)
        print("\n".join(self.lines))
        return bad or not text("twice").startswith("the same bits")


sys.exit(1 if Report().write() else 0)
