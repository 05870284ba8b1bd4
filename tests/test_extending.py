"""A family, a regulariser, an EM update and a query: each a file with one registration, in a package apart."""

import importlib
import sys
import textwrap

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError, ParameterError

FILES = {
    "__init__.py": "",
    "delay.py": '''
        """A family: times until something happens."""
        from dataclasses import dataclass

        import numpy as np
        import flatpc as fp


        @fp.families.register
        @dataclass(frozen=True)
        class Delay(fp.Family):
            largest: float = 1e6
            names = ("rate",)
            statistic_names = ("count", "sum")
            discrete = False

            def check_parameters(self, parameters, where):
                if not ((parameters["rate"] > 0) & (parameters["rate"] <= self.largest)).all():
                    raise fp.ParameterError(f"{where}: rates are positive.")

            def outside(self, x):
                return (x < 0) | np.isinf(x)

            def support(self):
                return "numbers from 0 on"

            def initialize(self, width, rng, spread):
                return {"rate": rng.uniform(0.5, 2.0, width)}

            def log_density(self, parameters, x):
                return np.log(parameters["rate"]) - parameters["rate"] * x[:, None]

            def statistics(self, parameters, x, flow):
                return {"count": flow.sum(axis=0), "sum": x @ flow}

            def update(self, parameters, statistics, pseudocount=0.0):
                seen = statistics["sum"] > 0
                rate = statistics["count"] / np.where(seen, statistics["sum"], 1.0)
                return {"rate": np.where(seen, np.minimum(rate, self.largest), parameters["rate"])}

            def interpolate(self, old, new, step):
                return {"rate": 1 / ((1 - step) / old["rate"] + step / new["rate"])}

            def unconstrain(self, parameters):
                return {"rate": np.log(parameters["rate"])}

            def constrain(self, free):
                return {"rate": np.exp(np.clip(free["rate"], -600, np.log(self.largest)))}

            def gradient(self, parameters, statistics):
                return {"rate": statistics["count"] - parameters["rate"] * statistics["sum"]}
        ''',
    "decay.py": '''
        """A regulariser: a penalty on the squares of all logits."""
        from dataclasses import dataclass

        import flatpc as fp


        @fp.learning.register_regularizer
        @dataclass(frozen=True)
        class Decay(fp.learning.Regularizer):
            strength: float = 0.01

            def gradient(self, z):
                return self.strength * z

            def objection(self, other, method):
                return "one moves the other" if other.defines("offset") else ""
        ''',
    "cooled.py": '''
        """An EM update: flows to a power."""
        from dataclasses import dataclass

        import flatpc as fp


        @fp.learning.register_regularizer
        @dataclass(frozen=True)
        class Cooled(fp.learning.EMUpdate):
            power: float = 0.5

            def solve(self, flows, old, share):
                return flows**self.power
        ''',
    "surprise.py": '''
        """A query: surprise in bits."""
        import numpy as np
        import flatpc as fp


        @fp.queries.register
        def surprise(circuit, X, *, missing="raise"):
            return -circuit.log_prob(X, missing=missing) / np.log(2)
        ''',
}
RNG = np.random.default_rng(0)
BITS = (RNG.random((80, 4)) < RNG.choice([0.2, 0.8], (80, 1))).astype(float)
TREE = fp.structures.hclt(BITS, 3)
OPTIONS = {"epochs": 4, "batch_size": None, "dtype": "float64", "progress": False}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outside")
    (folder / "my_extension").mkdir()
    for name, text in FILES.items():
        (folder / "my_extension" / name).write_text(textwrap.dedent(text).lstrip())
    sys.path.insert(0, str(folder))
    try:
        yield lambda module: importlib.import_module(f"my_extension.{module}")
    finally:
        sys.path.remove(str(folder))


def test_a_family(package, tmp_path):
    package("delay")
    family = fp.family("delay")
    X = np.stack([RNG.exponential(0.5, 200), RNG.exponential(3.0, 200)], axis=1)
    start = fp.structures.factorized(X, family=family).randomize(0)
    learnt = fp.fit(start, X, method=fp.EM(step_size=1.0), **OPTIONS).circuit
    rates = [float(p["rate"][0]) for p in learnt.parameters.values() if isinstance(p, dict)]
    np.testing.assert_allclose(sorted(rates), sorted(1 / X.mean(axis=0)), rtol=1e-10)  # the maximum likelihood, in closed form
    expected = sum(np.log(1 / m) - x / m for x, m in zip(X.T, X.mean(axis=0), strict=True))
    for engine in ("numba", "torch"):
        np.testing.assert_allclose(learnt.log_prob(X, engine=engine), expected, rtol=1e-9)
    learnt.save(tmp_path / "model")
    np.testing.assert_array_equal(fp.load(tmp_path / "model").log_prob(X), learnt.log_prob(X))
    better = fp.fit(start, X, method=fp.Adam(0.05), **OPTIONS).circuit
    assert better.log_prob(X).mean() > start.log_prob(X).mean()


def test_a_regulariser(package, tmp_path):
    decay = package("decay").Decay
    options = {**OPTIONS, "method": fp.SGD(step_size=0.1, momentum=0.0), "epochs": 1}
    plain = fp.fit(TREE, BITS, **options).circuit
    named = fp.fit(TREE, BITS, regularizer="decay", **options).circuit
    # One step by hand: the logits of the start are the logarithms of its weights, and the penalty moves each by -0.1 · 0.01 · z.
    for i, w in TREE.parameters.items():
        if not isinstance(w, dict):
            expected = plain.parameters[i] * np.exp(-0.1 * 0.01 * np.log(w))
            np.testing.assert_allclose(named.parameters[i], expected / expected.sum(axis=1, keepdims=True), rtol=1e-10)
    far = fp.fit(TREE, BITS, regularizer=decay(strength=5.0), **{**OPTIONS, "method": fp.SGD(0.1), "epochs": 200}).circuit
    for w in far.parameters.values():
        if not isinstance(w, dict):
            np.testing.assert_allclose(w, 1 / w.shape[1], atol=0.02)
    with pytest.raises(OptionError, match="Decay and SAM can't be combined: one moves the other"):
        fp.fit(TREE, BITS, regularizer=[decay(), "sam"], **options)
    with pytest.raises(OptionError, match="Decay is for gradient learning"):
        fp.fit(TREE, BITS, regularizer=decay(), progress=False)
    fp.fit(TREE, BITS, regularizer=decay(), run=tmp_path / "run", **options)
    with pytest.raises(OptionError, match="different here: regularizer"):
        fp.fit(TREE, BITS, regularizer=decay(0.5), run=tmp_path / "run", **options)


def test_an_em_update(package, tmp_path):
    cooled = package("cooled").Cooled
    counts = fp.learning.Laplace(0.4)
    for method in (fp.EM(0.3), fp.EM(0.3, momentum=0.5, anemone=True)):
        options = {**OPTIONS, "batch_size": 30, "method": method}
        same, plain = (fp.fit(TREE, BITS, regularizer=r, **options).circuit for r in ([cooled(1.0), counts], counts))
        np.testing.assert_allclose(same.log_prob(BITS), plain.log_prob(BITS), rtol=1e-10)
    step = {**OPTIONS, "epochs": 1, "method": fp.EM(0.3)}
    found = fp.fit(TREE, BITS, regularizer="cooled", **step).circuit
    for i, F in TREE.flows(BITS).sums.items():
        new = F**0.5 / (F**0.5).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found.parameters[i], 0.7 * TREE.parameters[i] + 0.3 * new, rtol=1e-10)
    with pytest.raises(OptionError, match="Cooled and Sharpness can't be combined: both put an equation"):
        fp.fit(TREE, BITS, regularizer=cooled(), sharpness=fp.Sharpness(), progress=False)
    whole = fp.fit(TREE, BITS, regularizer=cooled(), epochs=4, batch_size=30, progress=False).circuit
    fp.fit(TREE, BITS, regularizer=cooled(), epochs=2, batch_size=30, run=tmp_path / "run", progress=False)
    resumed = fp.fit(TREE, BITS, regularizer=cooled(), epochs=4, batch_size=30, run=tmp_path / "run", progress=False).circuit
    np.testing.assert_array_equal(resumed.log_prob(BITS), whole.log_prob(BITS))


def test_an_update_of_masked_sums_mixtures_and_ties():
    """The plain update written as one of our own is the plain one, for every kind of node."""

    class Plain(fp.learning.EMUpdate):
        def solve(self, flows, old, share):
            return flows

    from tests.engine.conformance import circuits
    from tests.learning.test_em import rows_for

    for name in ("every_node-categorical", "hmm_homogeneous-poisson", "rat_spn-gaussian"):
        circuit = circuits()[name]
        X = rows_for(circuit, 30)
        options = {**OPTIONS, "batch_size": 12}
        same, plain = (
            fp.fit(circuit, X, regularizer=[*r, fp.learning.Laplace(0.5, on="sums")], **options).circuit for r in ([Plain()], [])
        )
        np.testing.assert_allclose(same.log_prob(X), plain.log_prob(X), rtol=1e-9)


@pytest.mark.parametrize("answer", [lambda F: F[:, :1], lambda F: -F - 1, lambda F: F * np.nan, lambda F: np.inf * (F + 1)])
def test_an_update_that_is_wrong(answer):
    class Wrong(fp.learning.EMUpdate):
        def solve(self, flows, old, share):
            return answer(flows)

    with pytest.raises(ParameterError, match=r"Wrong\.solve returned"):
        fp.fit(TREE, BITS, regularizer=Wrong(), progress=False)


def test_a_regulariser_that_does_nothing_is_refused():
    class Idle(fp.learning.Regularizer):
        pass

    with pytest.raises(OptionError, match="Idle defines no hook"):
        fp.fit(TREE, BITS, regularizer=Idle(), progress=False)
    with pytest.raises(OptionError, match="inherits from"):
        fp.learning.register_regularizer(Idle())
    with pytest.raises(OptionError, match="is there already"):
        fp.learning.register_regularizer(type("Laplace", (Idle,), {}))


def test_a_query(package):
    surprise = package("surprise").surprise
    expected = -TREE.log_prob(BITS) / np.log(2)
    np.testing.assert_array_equal(TREE.surprise(BITS), expected)
    np.testing.assert_array_equal(surprise(TREE, BITS), expected)
    importlib.reload(sys.modules["my_extension.surprise"])  # as when a cell of a notebook is run again

    def log_prob(circuit, X):
        return 0

    with pytest.raises(OptionError, match="already"):
        fp.queries.register(log_prob)
    for wrong in (None, 3, int, lambda circuit: 0, "mean"):
        with pytest.raises(OptionError):
            fp.queries.register(wrong)


def test_an_em_update_without_its_step_is_refused():
    class Empty(fp.learning.EMUpdate):
        pass

    with pytest.raises(OptionError, match="Empty has no solve"):
        fp.fit(TREE, BITS, regularizer=Empty(), **OPTIONS)
