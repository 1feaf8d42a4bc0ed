"""Means, intervals and tests of artificial and real losses by SciPy: expected/statistics.txt, which tests/unit/test_statistics.c
compares with the results of moec.

    tests/oracle/statistics.sh            compares with the committed numbers
    tests/oracle/statistics.sh --write    writes the numbers

A line: kind, number of values, the values, number of baseline values, those, then mean, half of the 95 % interval, p-value.
A line `student`: degrees of freedom, t, probability of a value of at most t.
"""
import math
import os
import random
import sys

import numpy
from scipy import stats

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected", "statistics.txt")

# Validation bits per byte of real runs: three seeds of a small decoder, 150 steps, with its gate at sdpa, then none, at v, at v
# per head.
SDPA = [3.45815363, 3.3172968, 3.45739766]
REAL = [
    (SDPA, [3.49860379, 3.39908489, 3.50130872]),
    (SDPA, [3.44698028, 3.4012139, 3.47473365]),
    (SDPA, [3.45219841, 3.3956856, 3.45574549]),
]


def made_up():
    """Pairs of samples: few and many, near and far, of equal and very different standard deviations."""
    source = random.Random(7)
    for count in (2, 3, 4, 5, 8, 13, 40):
        for shift in (0, 0.01, 0.3, 5):
            for spread in (1e-6, 0.02, 1):
                base = [3 + 0.02 * source.gauss(0, 1) for _ in range(count)]
                yield base, [value + shift + spread * source.gauss(0, 1) for value in base]


def numbers(values):
    return f"{len(values)} " + " ".join(repr(float(value)) for value in values)


def lines():
    for base, values in [*REAL, *made_up()]:
        sample = stats.ttest_1samp(values, 0)
        interval = sample.confidence_interval(0.95)
        yield f"mean {numbers(values)} 0 {numpy.mean(values)!r} {(interval.high - interval.low) / 2!r} {numpy.std(values, ddof=1)!r}"
        for kind, test in (("paired", stats.ttest_rel(values, base)), ("apart", stats.ttest_ind(values, base, equal_var=False))):
            interval = test.confidence_interval(0.95)
            mean = numpy.mean(values) - numpy.mean(base)
            yield f"{kind} {numbers(values)} {numbers(base)} {mean!r} {(interval.high - interval.low) / 2!r} {test.pvalue!r}"
        uneven = values[: max(2, len(values) // 2)]
        test = stats.ttest_ind(uneven, base, equal_var=False)
        interval = test.confidence_interval(0.95)
        mean = numpy.mean(uneven) - numpy.mean(base)
        yield f"apart {numbers(uneven)} {numbers(base)} {mean!r} {(interval.high - interval.low) / 2!r} {test.pvalue!r}"
    for freedom in (1, 1.5, 2, 3.7, 10, 99.5, 1e4):
        for t in (-30, -4.2, -1, -1e-3, 0, 0.5, 2, 12.7):
            yield f"student {freedom!r} {t!r} {stats.t.cdf(t, freedom)!r}"


def plain(line):
    return line.replace("np.float64(", "").replace(")", "")


def main():
    found = [plain(line) for line in lines()]
    if "--write" in sys.argv:
        with open(PATH, "w") as file:
            file.write("\n".join(found) + "\n")
        return
    with open(PATH) as file:
        kept = file.read().split("\n")[:-1]
    assert len(kept) == len(found), "another number of lines"
    for old, new in zip(kept, found):
        for one, other in zip(old.split(), new.split()):
            same = one == other or math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-300)
            assert same, f"{one} is committed, SciPy says {other}: {new[:120]}"
    print(f"{len(found)} lines of {PATH} are as SciPy says")


main()
