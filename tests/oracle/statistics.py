"""Means, intervals and tests of artificial and real losses by SciPy: expected/statistics.txt, which tests/unit/test_statistics.c
compares with the results of moec.

    tests/oracle/statistics.sh            compares with the committed numbers
    tests/oracle/statistics.sh --write    writes the numbers

A line: kind, number of values, the values, number of baseline values, those, then mean, half of the 95 % interval, p-value.
A line `student`: degrees of freedom, t, probability of a value of at most t. A line `noncentral`: the same with the noncentrality
before the probability. A line `fisher`: ratio, two degrees of freedom, probability of at least the ratio. A line `equivalence`: as
`paired` or `apart`, with the bound, then the p-values of equivalence and of not being worse. A line `power`: paired or not, standard
deviation, difference, level, power, seeds. A line `holm` or `benjamini_hochberg`: number of p-values, the values, the corrected ones.
Lines `grid` and `scaling`: see grid_lines and scaling_lines.
"""
import itertools
import math
import os
import random
import sys

import numpy
from scipy import optimize, stats
import pandas
from statsmodels.formula.api import ols
from statsmodels.stats import power, weightstats
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multitest import multipletests

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
    values = list(values)
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


def more_lines():
    for freedom in (1, 2, 3.7, 10, 99.5):
        for t in (-4.2, -1, 0, 0.5, 2, 12.7):
            for shift in (-2, 0.3, 4):
                yield f"noncentral {freedom!r} {t!r} {shift!r} {stats.nct.cdf(t, freedom, shift)!r}"
    for ratio in (1e-3, 0.5, 1, 3.3, 40):
        for above, below in ((1, 2), (3, 4), (2, 30), (7, 11)):
            yield f"fisher {ratio!r} {above} {below} {stats.f.sf(ratio, above, below)!r}"
    for base, values in [*REAL, *made_up()]:
        for bound in (0.01, 0.3):
            pair = weightstats.DescrStatsW(numpy.array(values) - numpy.array(base))
            worse = stats.ttest_1samp(numpy.array(values) - numpy.array(base), bound, alternative="less")
            yield f"equivalence paired {numbers(values)} {numbers(base)} {bound!r} {pair.ttost_mean(-bound, bound)[0]!r} {worse.pvalue!r}"
            apart = weightstats.ttost_ind(numpy.array(values), numpy.array(base), -bound, bound, usevar="unequal")
            yield f"equivalence apart {numbers(values)} {numbers(base)} {bound!r} {apart[0]!r} {apart[2][1]!r}"
    for spread in (0.01, 0.2):
        for size in (0.01, 0.05, 0.3):
            for level, wanted in ((0.05, 0.8), (0.05 / 6, 0.9)):
                pairs = first_count(power.TTestPower(), size / spread, level, wanted, 1)
                apart = first_count(power.TTestIndPower(), size / spread, level, wanted, 0)
                yield f"power 1 {spread!r} {size!r} {level!r} {wanted!r} {pairs}"
                yield f"power 0 {spread!r} {size!r} {level!r} {wanted!r} {apart}"
    source = random.Random(11)
    for count in (1, 2, 5, 20, 64):
        chances = [source.random() ** 4 for _ in range(count)]
        chances[-1] = chances[0]
        for name, method in (("holm", "holm"), ("benjamini_hochberg", "fdr_bh")):
            yield f"{name} {numbers(chances)} {numbers(multipletests(chances, method=method)[1])}"


def grid_lines():
    """Number of factors, their sizes, number of seeds, number of losses and the losses; the last factor changes fastest, each cell
    has one loss per seed. Then F and p-value of each effect: main effects first, then pairs, then all three."""
    source = random.Random(13)
    for sizes, seeds in (((2, 2), 2), ((2, 3), 3), ((3, 2, 2), 4), ((2, 4), 5)):
        shifts = [source.gauss(0, 0.05) for _ in range(seeds)]
        cells = list(itertools.product(*(range(size) for size in sizes)))
        rows = [
            {
                **{f"f{i}": level for i, level in enumerate(cell)},
                "seed": seed,
                "y": 3 + 0.1 * cell[0] - 0.03 * cell[1] * cell[0] + shifts[seed] + source.gauss(0, 0.04),
            }
            for cell in cells
            for seed in range(seeds)
        ]
        names = [f"C(f{i})" for i in range(len(sizes))]
        table = anova_lm(ols("y ~ C(seed) + " + " * ".join(names), pandas.DataFrame(rows)).fit())
        effects = [":".join(part) for size in range(1, len(names) + 1) for part in itertools.combinations(names, size)]
        found = " ".join(f"{float(table['F'][name])!r} {float(table['PR(>F)'][name])!r}" for name in effects)
        yield f"grid {len(sizes)} {' '.join(map(str, sizes))} {seeds} {numbers(row['y'] for row in rows)} {found}"


def scaling_lines():
    """Number of points, then parameters, tokens and loss of each, then E, A, alpha, B, beta (0 and 0 if tokens are a multiple of the
    parameters) by SciPy. The losses follow the law of Hoffmann et al. with noise."""
    source = random.Random(17)
    for noise in (0, 1e-3, 5e-3):
        for tied in (True, False):
            points = []
            for size in (1e6, 3e6, 1e7, 3e7, 1e8):
                for ratio in (20,) if tied else (5, 20, 80):
                    loss = 1.69 + 406.4 / size**0.34 + 410.7 / (ratio * size) ** 0.28
                    points.append((size, ratio * size, loss * (1 + noise * source.gauss(0, 1))))
            size, tokens, loss = numpy.array(points).T

            def residual(x):
                found = numpy.exp(x[0]) + numpy.exp(x[1] - numpy.exp(x[2]) * numpy.log(size))
                if not tied:
                    found = found + numpy.exp(x[3] - numpy.exp(x[4]) * numpy.log(tokens))
                return found / loss - 1

            starts = [[math.log(1), a, math.log(b), c, math.log(d)][: 3 if tied else 5]
                      for a in (3, 7) for b in (0.2, 0.5) for c in (3, 7) for d in (0.2, 0.5)]
            fits = [optimize.least_squares(residual, start, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=5000) for start in starts]
            best = min(fits, key=lambda fit: fit.cost).x
            values = [*numpy.exp(best[:3]), *(numpy.exp(best[3:]) if not tied else (0, 0))]
            flat = " ".join(repr(float(value)) for point in points for value in point)
            yield f"scaling {len(points)} {flat} " + " ".join(repr(float(value)) for value in values)


def first_count(test, size, level, wanted, paired):
    """The smallest number of runs with the wanted power, by trying all of them."""
    for count in range(2, 100000):
        found = test.power(size, count, level) if paired else test.power(size, count, level, ratio=1)
        if found >= wanted:
            return count


def plain(line):
    return line.replace("np.float64(", "").replace(")", "")


def main():
    found = [plain(line) for line in [*lines(), *more_lines(), *grid_lines(), *scaling_lines()]]
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
