"""Tests of Student's t by SciPy on random inputs, for tests/it/report.rs: python student.py > student.json"""

import json

import numpy
import scipy
from scipy import stats

random = numpy.random.default_rng(7)
cases = []
for _ in range(60):
    count = int(random.integers(2, 12))
    scale = 10.0 ** random.uniform(-4, 2)
    differences = random.normal(random.normal() * scale, scale, count)
    paired = stats.ttest_1samp(differences, 0.0, alternative="greater")
    mean, deviation = float(random.normal() * scale), float(abs(random.normal()) * scale)
    runs = int(random.integers(2, 12))
    welch = stats.ttest_ind_from_stats(
        differences.mean(), differences.std(ddof=1), count, mean, deviation, runs, equal_var=False, alternative="greater"
    )
    cases.append(
        {
            "values": differences.tolist(),
            "mean": float(differences.mean()),
            "deviation": float(differences.std(ddof=1)),
            "paired": [float(paired.statistic), float(paired.pvalue)],
            "published": [mean, deviation, runs],
            "welch": [float(welch.statistic), float(welch.pvalue)],
        }
    )
print(json.dumps({"made by": f"student.py with SciPy {scipy.__version__}", "cases": cases}, indent=0))
