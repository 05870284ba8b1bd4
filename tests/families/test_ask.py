"""A family is asked, never looked at; and a new one takes its own file and one registration."""

import re
import subprocess
import sys
from pathlib import Path

import flatpc as fp

SOURCES = Path(fp.__file__).parent
NAMES = "|".join(["Bernoulli", "Categorical", "Indicator", "Gaussian", "Binomial", "Poisson", "Finite"])


def test_nobody_looks_at_the_class_of_a_family():
    """No `isinstance` or `type(...) is` on families outside `families/`."""
    kinds = rf"[^\n]*\b({NAMES})\b"
    looks = re.compile(rf"(isinstance|issubclass)\({kinds}|type\([^\n]*\) (is|==|in)\b{kinds}|case ({NAMES})\(")
    found = []
    for file in sorted(SOURCES.rglob("*.py")):
        if SOURCES / "families" in file.parents:
            continue
        found += [f"{file.relative_to(SOURCES)}: {line.strip()}" for line in file.read_text().splitlines() if looks.search(line)]
    assert found == []


def test_a_family_of_a_package_of_its_own(tmp_path):
    """One file, one registration: evaluated, learnt, sampled, saved, and loaded by another process that imports the file."""
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "laplace.py").write_text(
        """
import numpy as np
import flatpc as fp

@fp.families.register
class Laplace(fp.Family):
    names = ("scale",)
    statistic_names = ("count", "absolute")
    discrete = False

    def initialize(self, width, rng, spread):
        return {"scale": rng.uniform(0.5, 2.0, width)}

    def log_density(self, parameters, x):
        return -abs(x)[:, None] / parameters["scale"] - np.log(2 * parameters["scale"])

    def statistics(self, parameters, x, flow):
        return {"count": flow.sum(axis=0), "absolute": abs(x) @ flow}

    def update(self, parameters, statistics, pseudocount=0.0):
        seen = statistics["count"] > 0
        return {"scale": np.where(seen, statistics["absolute"] / np.where(seen, statistics["count"], 1), parameters["scale"])}

    def sample(self, parameters, units, rng):
        return rng.laplace(scale=parameters["scale"][units])
"""
    )
    write = """
import numpy as np, flatpc as fp
from mine.laplace import Laplace
X = np.random.default_rng(0).laplace(scale=3.0, size=(500, 2))
start = fp.structures.rat_spn(2, depth=1, n_repetitions=2, n_sums=3, n_inputs=3, family="laplace")
learnt = fp.fit(start, X, epochs=5, progress=False).circuit
assert learnt.log_prob(X).mean() > start.log_prob(X).mean()
assert np.asarray(learnt.sample(5)).shape == (5, 2)
learnt.save("model.safetensors")
print(float(learnt.log_prob(X[:9]).sum()).hex())
"""
    read = """
import numpy as np, flatpc as fp
import mine.laplace
X = np.random.default_rng(0).laplace(scale=3.0, size=(500, 2))
print(float(fp.load("model.safetensors").log_prob(X[:9]).sum()).hex())
"""
    stranger = """
import flatpc as fp
try:
    fp.load("model.safetensors")
except fp.FlatpcError as error:
    assert "'laplace'" in str(error) and "fp.families.register" in str(error)
    print("refused")
"""
    printed = []
    for script in (write, read, stranger):
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.strip())
    assert printed[0] == printed[1]
    assert printed[2] == "refused"
