"""The codes of error messages: compiler/base/errors.def and compiler/ERRORS.md (see tests/checks/errors.sh).

    python3 tests/errors.py check      fails on a message without a code, a code without a message, or another ERRORS.md
    python3 tests/errors.py update     assigns codes and writes both files; a reworded message keeps its code
"""

import difflib
import pathlib
import re
import sys

TABLE, PAGE = pathlib.Path("compiler/base/errors.def"), pathlib.Path("compiler/ERRORS.md")
# Functions that report an error, per side, with the number of the argument that is the format.
CALLS = {"compiler": {"report_error": 2, "report_blamed": 3, "report_caused": 4, "report_invalid": 3,
                      "value_invalid": 3},
         "runtime": {"error_message": 1, "arguments_wrong": 2}}
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"|PRI([ud])64')
TOKEN = re.compile(r'/\*.*?\*/|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)+\'|.', re.S)
CONVERSION = re.compile(r"%[-+# 0-9.*]*(?:hh|h|ll|l|z|j|t)?[a-zA-Z]|%%")
PARTIAL = "/* Partial: not every message has a code yet; UPDATE=1 removes this line. */"
COLUMNS = 100
FEWEST_LIKENESS = 0.7  # of a reworded message to its former text
FEWEST_LETTERS = 5  # outside of conversions: a format with fewer would match other messages
HEAD = """# Error index

Each error message has a code: `error[E0123]` in text, `"code"` with `--json`. A code keeps its meaning in later versions and is
never reused. `...` in a message is a value. This page is written by `UPDATE=1 sh tests/checks/errors.sh` from the sources. The
examples are test cases with their output. [Guide 12](../examples/guides/12-troubleshooting.md) lists symptoms without a message.
"""


def without_comments(text):
    return "".join(" " if token.startswith("/*") else token for token in TOKEN.findall(text))


def arguments(text, start):
    """The arguments of a call whose parenthesis opens before `start`, and the offset of its end."""
    found, depth, current, at = [], 0, "", start
    for token in TOKEN.findall(text[start:]):
        at += len(token)
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
            if depth < 0:
                return [*found, current.strip()], at
        if token == "," and depth == 0:
            found.append(current.strip())
            current = ""
        else:
            current += token
    return found, at


def formats(argument):
    """The texts of an argument: neighboring literals are one text, those of a conditional expression are several."""
    parts, last = [], None
    for match in LITERAL.finditer(argument):
        text = match.group(1) if match.group(1) is not None else "l" + match.group(2)
        if last is not None and not argument[last:match.start()].strip():
            parts[-1] += text
        else:
            parts.append(text)
        last = match.end()
    return parts


def letters(text):
    return len(re.sub(r"[^A-Za-z]", "", CONVERSION.sub("", text)))


def help_after(text, end):
    match = re.match(r"\s*;\s*(?:return )?report_help\s*\(", text[end:])
    given = arguments(text, end + match.end())[0] if match else []
    return formats(given[1])[0] if len(given) > 1 and formats(given[1]) else None


def messages():
    """{(file, format): remedy or None}, in the order of the sources."""
    found = {}
    for path in sorted([*pathlib.Path("compiler").rglob("*.[cyl]"), *pathlib.Path("runtime").rglob("*.c")]):
        if path.parts[1] in ("sim", "standalone"):
            continue
        text, calls = without_comments(path.read_text(encoding="utf-8")), CALLS[path.parts[0]]
        for match in re.finditer(r"\b(%s)\s*\(" % "|".join(calls), text):
            given, end = arguments(text, match.end())
            format_at = calls[match.group(1)]
            texts = formats(given[format_at]) if len(given) > format_at else []
            remedy = help_after(text, end)
            if (path.parts[0] == "runtime" or "invalid" in match.group(1)) and formats(given[format_at - 1]):
                remedy = formats(given[format_at - 1])[0]
            for one in texts:
                if letters(one) >= FEWEST_LETTERS and not one.startswith(" "):  # " of GGUF" is a part of a message
                    found.setdefault((str(path), one), remedy)
    return found


def read_table():
    """[(code, format or None when retired)]"""
    rows = []
    text = TABLE.read_text(encoding="utf-8")
    for match in re.finditer(r'^(?:ERROR|RETIRED)\("(E\d+)"(?:,\s*((?:"(?:[^"\\]|\\.)*"\s*)+))?\)', text, re.M):
        rows.append((match.group(1), formats(match.group(2))[0] if match.group(2) else None))
    return rows


def assign(rows, found):
    """The rows with a code per message. A message that resembles a removed one keeps its code."""
    result = dict(rows)
    texts = list(dict.fromkeys(text for _, text in found))
    gone = {code: one for code, one in rows if one and one not in texts}
    last = max([int(code[1:]) for code in result], default=0)
    for one in texts:
        if one in result.values():
            continue
        likeness = [(difflib.SequenceMatcher(None, old, one).ratio(), code) for code, old in gone.items()]
        ratio, code = max(likeness, default=(0, None))
        if ratio < FEWEST_LIKENESS:
            last += 1
            code = f"E{last:04d}"
        gone.pop(code, None)
        result[code] = one
    for code in gone:
        result[code] = None
    return sorted(result.items())


def table_row(code, one):
    if one is None:
        return f'RETIRED("{code}")'
    row = f'ERROR("{code}", "{one}")'
    return row if len(row) <= COLUMNS else f'ERROR("{code}",\n      "{one}")'


def write_table(rows):
    head = TABLE.read_text(encoding="utf-8").split("*/", 1)[0] + "*/\n"
    TABLE.write_text(head + "\n".join(table_row(code, one) for code, one in rows) + "\n", encoding="utf-8")


# ---- page ----

def pattern(one):
    parts = CONVERSION.split(one.replace('\\"', '"').replace("\\\\", "\\"))
    return re.compile(".*".join(re.escape(part) for part in parts) + r"\Z")


def cases():
    """[(name, error line without code, the lines that follow it)] of the expected output of all cases."""
    found = []
    for path in sorted(pathlib.Path("tests/cases").rglob("*.case")):
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n---\n")[-1].split("\n")
        for number, line in enumerate(lines):
            match = re.match(r"(?:.*?: )?error(?:\[E\d+\])?: (.*)", line)
            if match:
                end = next((i for i in range(number + 1, len(lines)) if not lines[i].startswith("  ")), len(lines))
                found.append((str(path), match.group(1), [line, *lines[number + 1:end]]))
    return found


def readable(one):
    text = CONVERSION.sub(lambda match: "%" if match.group() == "%%" else "...", one)
    return text.replace('\\"', '"').replace("\\n", " ").replace("`", "'")


def page(rows, found):
    remedies = {one: remedy for (_, one), remedy in found.items()}
    examples = cases()
    out = [HEAD]
    for code, one in rows:
        if one is None:
            out.append(f"\n## {code}\n\nRetired: no longer printed.\n")
            continue
        out.append(f"\n## {code}\n\n`{readable(one)}`\n")
        matching = pattern(one)
        example = next((case for case in examples if matching.match(case[1])), None)
        if remedies.get(one) and not example:
            out.append(f"\nHelp: `{readable(remedies[one])}`\n")
        if example:
            lines = [re.sub(r"error(\[E\d+\])?: ", f"error[{code}]: ", example[2][0], count=1), *example[2][1:]]
            out.append(f"\nExample, from [{pathlib.Path(example[0]).name}](../{example[0]}):\n\n```text\n" + "\n".join(lines) + "\n```\n")
    return "".join(out)


def main(mode):
    found, rows = messages(), read_table()
    if len(found) < 300:
        raise SystemExit(f"only {len(found)} messages were found: tests/errors.py does not know the functions that report them")
    if mode == "update":
        rows = assign(rows, found)
        write_table(rows)
        PAGE.write_text(page(rows, found), encoding="utf-8")
        return
    wrong = []
    texts = {one for _, one in found}
    known = {one for _, one in rows}
    codes = [code for code, _ in rows]
    wrong += [f"{code} occurs twice" for code in sorted(set(codes)) if codes.count(code) > 1]
    wrong += [f"{code}: no message is '{one}'" for code, one in rows if one and one not in texts]
    if PARTIAL not in TABLE.read_text(encoding="utf-8"):
        wrong += [f"{file}: '{one}' has no code" for file, one in found if one not in known]
    if PAGE.read_text(encoding="utf-8") != page(rows, found):
        wrong.append(f"{PAGE} is another page than that of the sources")
    if wrong:
        print("\n".join(wrong[:20]), f"{len(wrong)} problems: UPDATE=1 sh tests/checks/errors.sh", sep="\n")
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "check")
