"""Runs `console` blocks of Markdown files and compares the output: see tests/docs.sh."""
import re
import subprocess
import sys

NUMBER = r"[-+]?[0-9][-+0-9.,e:msh]*[kMGT]?"
# Progress that only a slow command prints: the tokenizer after 5 s, a phase after 10 s.
PROGRESS = re.compile(r".+: \d+ %, \d+ words|\d+ of \d+ tokens|[a-z ]+, \d+ s"
                      r"|.+ read, [0-9.]+ M tokens, [0-9.]+ MB/s")


def blocks(lines):
    """Yields (line number, lines) of each console block."""
    start = None
    for number, line in enumerate(lines):
        if start is None and line == "```console":
            start = number + 1
        elif start is not None and line == "```":
            yield start, lines[start:number]
            start = None


def commands(start, block):
    """Returns [line number, command, expected lines]; a backslash continues a command."""
    found, index = [], 0
    while index < len(block):
        if block[index].startswith("$ "):
            number, command = start + index + 1, block[index][2:]
            while command.endswith("\\") and index + 1 < len(block):
                index += 1
                command += "\n" + block[index]
            found.append([number, command, []])
        elif found:
            found[-1][2].append(block[index])
        index += 1
    return found


def pattern(expected):
    """`...` alone matches lines except an exit code, in a line any text; `~` matches a number."""
    text = ""
    for line in expected:
        if line.strip() == "...":
            text += r"(?:(?!\[exit )[^\n]*\n)*?"
            continue
        line = re.sub(r" +", " ", line.strip())
        line = re.escape(line).replace(r"\.\.\.", r"[^\n]*").replace(re.escape("~"), NUMBER)
        text += line.replace(r"\ ", " ") + r"\n"
    return re.compile(text + r"\Z")


def main(files):
    failures = count = 0
    for file in files:
        with open(file, encoding="utf-8") as handle:
            lines = handle.read().split("\n")
        for start, block in blocks(lines):
            for number, command, expected in commands(start, block):
                count += 1
                result = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, timeout=900)
                output = result.stdout.decode(errors="replace")
                if result.returncode:
                    output = output.rstrip("\n") + f"\n[exit {result.returncode}]\n"
                written = "".join(re.sub(r" +", " ", line.strip()) + "\n"
                                  for line in output.splitlines() if not PROGRESS.fullmatch(line))
                if pattern(expected).match(written):
                    continue
                failures += 1
                print(f"{file}:{number}: $ {command}\n--- expected\n" + "\n".join(expected))
                print(f"--- actual\n{output}", flush=True)
    print(f"{count} commands, {failures} failed")
    return 1 if failures or not count else 0


sys.exit(main(sys.argv[1:]))
