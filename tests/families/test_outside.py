"""Families that users write: in every query, on both engines, in EM, Adam and files; or a typed error, never a number."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

import flatpc as fp
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.errors import FamilyError, FileFormatError, OptionError, ParameterError, SupportError
from flatpc.families import registry
from tests.oracles.evaluate import log_prob as by_hand


@fp.families.register
@dataclass(frozen=True)
class Exponential(fp.Family):
    """Waiting times: rate · exp(-rate · x) for x ≥ 0."""

    largest: float = 1e6
    names: ClassVar = ("rate",)
    statistic_names: ClassVar = ("count", "sum")
    discrete: ClassVar = False

    def check_parameters(self, parameters, where):
        if not ((parameters["rate"] > 0) & (parameters["rate"] <= self.largest)).all():
            raise ParameterError(f"{where}: every rate must be positive, and at most {self.largest:g}.")

    def outside(self, x):
        return (x < 0) | np.isinf(x)

    def support(self):
        return "numbers from 0 on"

    @property
    def bounds(self):
        return 0.0, np.inf

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

    def mode(self, parameters):
        return np.zeros_like(parameters["rate"])

    def mean(self, parameters):
        return 1 / parameters["rate"]

    def variance(self, parameters):
        return parameters["rate"] ** -2

    def entropy(self, parameters):
        return 1 - np.log(parameters["rate"])

    def cdf(self, parameters, x):
        return -np.expm1(-parameters["rate"] * np.maximum(x, 0.0)[:, None])

    def quantile(self, parameters, q):
        return -np.log1p(-q)[:, None] / parameters["rate"]


@fp.families.register
class TorchExponential(Exponential):
    """The same with derivatives by torch."""

    def torch_log_density(self, parameters, x):
        return parameters["rate"].log() - parameters["rate"] * x


@fp.families.register
@dataclass(frozen=True)
class Truncated(fp.families.Finite):
    """Geometric over 0, ..., n-1: P(x) ∝ q^x. A table that is not what is learnt."""

    n: int = 5
    names: ClassVar = ("q",)

    @property
    def n_categories(self):
        return self.n

    def check_parameters(self, parameters, where):
        if not ((parameters["q"] > 0) & (parameters["q"] < 1)).all():
            raise ParameterError(f"{where}: every q lies between 0 and 1.")

    def initialize(self, width, rng, spread):
        return {"q": rng.uniform(0.2, 0.8, width)}

    def table(self, parameters):
        powers = parameters["q"][:, None] ** np.arange(self.n)
        return powers / powers.sum(axis=1, keepdims=True)

    def update(self, parameters, statistics, pseudocount=0.0):
        # Newton steps on log q: the mean of x under the model is to be the mean of the counts.
        counts = statistics["counts"] + pseudocount / self.n
        total = counts.sum(axis=1)
        wanted = counts @ np.arange(self.n) / np.where(total > 0, total, 1.0)
        z = np.log(parameters["q"])
        for _ in range(60):
            now = {"q": np.exp(z)}
            z = np.clip(z + np.clip((wanted - self.mean(now)) / self.variance(now), -0.5, 0.5), -20.0, -1e-9)
        return {"q": np.where(total > 0, np.exp(z), parameters["q"])}

    def unconstrain(self, parameters):
        return {"q": np.log(parameters["q"] / (1 - parameters["q"]))}

    def constrain(self, free):
        return {"q": 1 / (1 + np.exp(-free["q"]))}

    def gradient(self, parameters, statistics):
        counts = statistics["counts"]
        slope = counts @ np.arange(self.n) - counts.sum(axis=1) * self.mean(parameters)
        return {"q": slope * (1 - parameters["q"])}


@fp.families.register
@dataclass(frozen=True)
class Steps(fp.Family):
    """A histogram: density p_j on [j, j + 1). Parameters and statistics with a second axis."""

    n: int = 4
    names: ClassVar = ("p",)
    discrete: ClassVar = False

    @property
    def bounds(self):
        return 0.0, float(self.n)

    def outside(self, x):
        return (x < 0) | (x >= self.n)

    def support(self):
        return f"numbers from 0 to less than {self.n}"

    def parameter_shapes(self, width):
        return {"p": (width, self.n)}

    def statistic_shapes(self, width):
        return {"counts": (width, self.n)}

    def initialize(self, width, rng, spread):
        return {"p": rng.dirichlet(np.full(self.n, 5.0), width)}

    def log_density(self, parameters, x):
        return np.log(parameters["p"][:, x.astype(int)].T)

    def statistics(self, parameters, x, flow):
        return {"counts": flow.T @ (x.astype(int)[:, None] == np.arange(self.n))}

    def update(self, parameters, statistics, pseudocount=0.0):
        counts = statistics["counts"] + (pseudocount + 1e-12) * parameters["p"]
        return {"p": counts / counts.sum(axis=1, keepdims=True)}

    def count(self, statistics):
        return statistics["counts"].sum(axis=1)

    def unconstrain(self, parameters):
        return {"p": np.log(parameters["p"])}

    def constrain(self, free):
        p = np.exp(free["p"] - free["p"].max(axis=1, keepdims=True))
        return {"p": p / p.sum(axis=1, keepdims=True)}

    def gradient(self, parameters, statistics):
        counts = statistics["counts"]
        return {"p": counts - counts.sum(axis=1, keepdims=True) * parameters["p"]}

    def mean(self, parameters):
        return parameters["p"] @ (np.arange(self.n) + 0.5)

    def variance(self, parameters):
        return parameters["p"] @ ((np.arange(self.n) + 0.5) ** 2 + 1 / 12) - self.mean(parameters) ** 2

    def sample(self, parameters, units, rng):
        place = (np.cumsum(parameters["p"], axis=1)[units] < rng.random((len(units), 1))).sum(axis=1)
        return np.minimum(place, self.n - 1) + rng.random(len(units))


class Bare(fp.Family):
    """The least that a family can be: it can be evaluated, and nothing else."""

    names: ClassVar = ("scale",)
    discrete: ClassVar = False

    def log_density(self, parameters, x):
        return stats.laplace.logpdf(x[:, None], scale=parameters["scale"])


class TestExponential(fp.testing.FamilySuite):
    family = Exponential()
    parameters: ClassVar = {"rate": [0.3, 1.0, 5.0]}
    wrong_values = (-1.0, np.inf)

    def maximum_likelihood(self, x):
        return {"rate": [1 / stats.expon.fit(x, floc=0)[1]]}


class TestTorchExponential(TestExponential):
    family = TorchExponential(largest=100.0)


class TestTruncated(fp.testing.FamilySuite):
    family = Truncated(5)
    parameters: ClassVar = {"q": [0.3, 0.5, 0.8]}
    wrong_values = (5.0, 0.5, -1.0)


class TestSteps(fp.testing.FamilySuite):
    family = Steps(3)
    parameters: ClassVar = {"p": [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]}
    wrong_values = (3.0, -0.1)
    breaks = (1.0, 2.0)

    def maximum_likelihood(self, x):
        return {"p": [np.bincount(x.astype(int), minlength=3) / len(x)]}


# ---- circuits that mix families -------------------------------------------------------------------------------------------


def mixed(width=3):
    """Five families under products and sums, of widths that are padded or not."""
    families = [Exponential(), fp.Gaussian(), Truncated(4), fp.Bernoulli(), fp.Poisson()]
    nodes = [fp.Input(v, family, width) for v, family in enumerate(families)]
    nodes += [fp.Product((0, 1)), fp.Product((2, 3, 4)), fp.Sum((5,), width), fp.Sum((6,), width)]
    nodes += [fp.Product((7, 8)), fp.Sum((9,))]
    return fp.Circuit(nodes).randomize(7)


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.exponential(2.0, n), rng.normal(size=n), rng.integers(0, 4, n), rng.integers(0, 2, n), rng.poisson(3, n)]
    return np.stack(columns, axis=1).astype(float)


@pytest.mark.parametrize("width", [1, 3, 11])
@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_a_mixed_circuit_is_evaluated_as_by_hand(width, engine):
    circuit, X = mixed(width), rows_of(60)
    X[::7, 0] = np.nan
    X[3:6] = X[2]
    found = circuit.log_prob(X, missing="marginalize", engine=engine)
    np.testing.assert_allclose(found, by_hand(circuit, X), rtol=1e-11, atol=1e-11)


def test_values_far_out_are_settled_in_the_log_domain():
    circuit, X = mixed(), rows_of(8)
    X[0, 0], X[1, 0], X[2, 1] = 5000.0, 1e6, 60.0
    numba, torch = (circuit.flows(X, engine=engine) for engine in ("numba", "torch"))
    np.testing.assert_allclose(numba.log_prob, by_hand(circuit, X), rtol=1e-11)
    np.testing.assert_allclose(numba.log_prob, torch.log_prob, rtol=1e-10)
    for i, found in numba.inputs.items():
        for name, value in found.items():
            np.testing.assert_allclose(value, torch.inputs[i][name], rtol=1e-8, atol=1e-8)


def test_every_distinct_value_is_asked_once():
    asked = []

    class Counting(Exponential):
        def log_density(self, parameters, x):
            asked.append(len(x))
            return super().log_density(parameters, x)

    circuit = fp.Circuit([fp.Input(0, Counting(), 2), fp.Sum((0,))])
    evaluator = Evaluator(circuit)
    X = np.repeat([0.5, 1.5, 4.0], 50)[:, None]
    evaluator.log_prob(Evidence(evaluator.program, X))
    assert asked == [3]


@pytest.mark.parametrize("options", [
    {"batch_size": 50, "method": fp.EM(step_size=0.5)}, {"batch_size": 50, "method": fp.EM(step_size=0.5, momentum=0.5)},
    {"batch_size": 50, "method": fp.EM(step_size=0.5, anemone=True)}, {"dtype": "float32"}, {"sharpness": fp.Sharpness(mu=0.05)},
    {"method": fp.Adam(step_size=0.02)}, {"method": fp.SGD(step_size=0.01)},
    {"method": fp.Adam(step_size=0.02), "sharpness": fp.Sharpness(mu=0.01)},
])  # fmt: skip
def test_every_way_of_learning_raises_the_likelihood(options):
    circuit, X = mixed(), rows_of(300)
    chosen = {"method": "em", "epochs": 8, "batch_size": None, "progress": False} | options
    result = fp.fit(circuit, X, **chosen)
    assert result.circuit.log_prob(X).mean() > circuit.log_prob(X).mean() + 0.1


def test_structures_fit_outside_families_to_columns_with_gaps():
    X = rows_of(50)[:, [0, 2]]
    X[::5, 0] = np.nan
    circuit = fp.structures.factorized(X, family=[Exponential(), Truncated(4)], smoothing=0.0)
    np.testing.assert_allclose(circuit.parameters[0]["rate"], 1 / np.nanmean(X[:, 0]), rtol=1e-12)
    np.testing.assert_allclose(Truncated(4).mean(circuit.parameters[1]), X[:, 1].mean(), rtol=1e-6)
    tree = fp.structures.hclt(X, 3, family=[Exponential(), Truncated(4)])
    learnt = fp.fit(tree, X, missing="marginalize", epochs=5, progress=False).circuit
    assert learnt.log_prob(X, missing="marginalize").mean() > tree.log_prob(X, missing="marginalize").mean()


def test_momentum_restates_nothing_that_it_need_not():
    """One unit, batches of all rows: momentum changes nothing, and EM ends at the maximum."""
    X = np.random.default_rng(1).exponential(0.5, (200, 1))
    circuit = fp.Circuit([fp.Input(0, Exponential())], {0: {"rate": [1.0]}})
    for momentum in (0.0, 0.7):
        learnt = fp.fit(
            circuit, X, method=fp.EM(step_size=1.0, momentum=momentum), epochs=3, batch_size=None, progress=False
        ).circuit
        np.testing.assert_allclose(learnt.parameters[0]["rate"], 1 / X.mean(), rtol=1e-9)


def test_gradients_of_the_penalty_reach_the_family():
    """∂ penalty / ∂z of an outside family, against differences of the penalty."""
    from flatpc.curvature.penalised import Penalised
    from flatpc.learning.steps.unconstrained import Unconstrained

    circuit, X = mixed(2), rows_of(12)
    evaluator = Evaluator(circuit)
    evidence = Evidence(evaluator.program, X)
    unconstrained, penalised = Unconstrained(evaluator), Penalised(evaluator, "weights")
    z = unconstrained.read()
    unconstrained.write(z)
    found = penalised.gradients(evidence, np.arange(12), value=True)
    gradient = np.zeros(unconstrained.size)
    unconstrained.add_gradient(gradient, 1.0, found.penalty_weights, found.penalty_inputs)
    start = evaluator.program.n_weights + evaluator.program.input_blocks[0][0]
    for place in (start, start + 1):
        ends = []
        for move in (-1e-5, 1e-5):
            moved = z.copy()
            moved[place] += move
            unconstrained.write(moved)
            ends.append(penalised.gradients(evidence, np.arange(12), value=True).numbers[1])
        np.testing.assert_allclose(gradient[place], (ends[1] - ends[0]) / 2e-5, rtol=1e-6, atol=1e-7)


def test_checkpoints_resume_to_the_bit(tmp_path):
    circuit, X = mixed(), rows_of(100)
    options = {"method": fp.EM(step_size=0.3), "batch_size": 20, "progress": False}
    whole = fp.fit(circuit, X, epochs=4, **options)
    fp.fit(circuit, X, epochs=2, run=tmp_path / "run.ckpt", **options)
    resumed = fp.fit(circuit, X, epochs=4, run=tmp_path / "run.ckpt", **options)
    np.testing.assert_array_equal(whole.circuit.parameters[0]["rate"], resumed.circuit.parameters[0]["rate"])


# ---- what a family lacks ----------------------------------------------------------------------------------------------------


def bare():
    return fp.Circuit([fp.Input(0, Bare(), 2), fp.Sum((0,))], {0: {"scale": [1.0, 2.0]}, 1: [[0.5, 0.5]]})


def test_the_least_family_has_a_likelihood():
    x = np.array([-1.0, 0.0, 3.0])
    wanted = np.log(0.5 * stats.laplace.pdf(x) + 0.5 * stats.laplace.pdf(x, scale=2.0))
    for engine in ("numba", "torch"):
        np.testing.assert_allclose(bare().log_prob(x[:, None], engine=engine), wanted, rtol=1e-12)


@pytest.mark.parametrize(("ask", "method"), [
    (lambda c: c.sample(3), "sample"),
    (lambda c: c.mpe([[np.nan]]), "mode"),
    (lambda c: c.expectation([[np.nan]]), "mean"),
    (lambda c: c.variance([[np.nan]]), "mean"),
    (lambda c: c.flows([[0.5]]), "statistics"),
    (lambda c: c.randomize(1), "initialize"),
    (lambda c: fp.fit(c, [[0.5], [1.0]], method="em", progress=False), "statistics"),
    (lambda c: fp.fit(c, [[0.5], [1.0]], method="adam", progress=False), "unconstrain"),
    (lambda c: c.families[0].cdf({"scale": np.ones(1)}, np.zeros(1)), "cdf"),
    (lambda c: c.families[0].entropy({"scale": np.ones(1)}), "entropy"),
])  # fmt: skip
def test_what_a_family_lacks_is_a_typed_error(ask, method):
    with pytest.raises(FamilyError, match=f"`{method}`.*Bare|Bare.*`{method}`"):
        ask(bare())


@pytest.mark.parametrize(("answer", "message"), [
    (lambda p, x: np.full((len(x), len(p["rate"])), np.nan), "gave nan at x = 0.5"),
    (lambda p, x: np.full((len(x), len(p["rate"])), np.inf), "gave inf at x = 0.5"),
    (lambda p, x: np.zeros(len(x)), "shape"),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_what_can_not_be_a_density_is_refused(answer, message, engine):
    class Broken(Exponential):
        def log_density(self, parameters, x):
            return answer(parameters, x)

    circuit = fp.Circuit([fp.Input(0, Broken(), 2), fp.Sum((0,))])
    with pytest.raises(FamilyError, match=message):
        circuit.log_prob([[0.5], [2.0]], engine=engine)


def test_statistics_that_were_not_declared_are_refused():
    class Wordy(Exponential):
        def statistics(self, parameters, x, flow):
            return {"count": flow.sum(axis=0), "other": flow.sum(axis=0)}

    circuit = fp.Circuit([fp.Input(0, Wordy(), 2), fp.Sum((0,))])
    with pytest.raises(FamilyError, match="statistic_names"):
        circuit.flows([[0.5]])


@pytest.mark.parametrize("base", [fp.Gaussian, fp.Poisson, fp.Bernoulli])
def test_a_changed_density_is_not_evaluated_as_the_old_one(base):
    """A subclass of a family that has native code, with another density, must not be taken for its parent."""

    class Halved(base):
        def log_density(self, parameters, x):
            return super().log_density(parameters, x) - np.log(2)

    new, old = (fp.Circuit([fp.Input(0, family, 2), fp.Sum((0,))]) for family in (Halved(), base()))
    X = [[1.0], [0.0]]
    for engine in ("numba", "torch"):
        np.testing.assert_allclose(new.log_prob(X, engine=engine), old.log_prob(X) - np.log(2), rtol=1e-12)


@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize("kind", [Exponential, TorchExponential])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_families_over_one_variable_may_differ_in_their_support(engine, kind, order):
    """A value that one of them allows is possible, and impossible for the other."""
    inputs = [fp.Input(0, kind()), fp.Input(0, fp.Gaussian())]
    parameters = [{"rate": [2.0]}, {"mean": [0.0], "variance": [1.0]}]
    circuit = fp.Circuit(
        [*(inputs[i] for i in order), fp.Sum((0, 1))], {0: parameters[order[0]], 1: parameters[order[1]], 2: [[0.5, 0.5]]}
    )
    x = np.array([-1.0, 1.0])
    wanted = np.log(0.5 * stats.expon.pdf(x, scale=0.5) + 0.5 * stats.norm.pdf(x))
    np.testing.assert_allclose(circuit.log_prob(x[:, None], engine=engine), wanted, rtol=1e-12)
    flows = circuit.flows(x[:, None], engine=engine).inputs[order.index(0)]
    share = stats.expon.pdf(1.0, scale=0.5) / (stats.expon.pdf(1.0, scale=0.5) + stats.norm.pdf(1.0))
    np.testing.assert_allclose([flows["count"][0], flows["sum"][0]], share, rtol=1e-12)


def test_values_outside_the_support_name_the_column():
    with pytest.raises(SupportError, match=r"-1 in row 1, but Exponential.*numbers from 0 on"):
        mixed().log_prob(np.where(np.arange(5) == 0, [[1.0], [-1.0]], 1.0))


# ---- files and names --------------------------------------------------------------------------------------------------------


def test_an_unregistered_family_is_not_saved(tmp_path):
    with pytest.raises(FileFormatError, match=r"fp.families.register\(Bare\)"):
        bare().save(tmp_path / "bare.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_file_with_an_unknown_family_says_what_to_do(tmp_path, monkeypatch):
    mixed().save(tmp_path / "mixed.safetensors")
    monkeypatch.delitem(registry._FAMILIES, registry.name_of(Exponential))
    with pytest.raises(FileFormatError, match=r"unknown family '.*exponential'.*fp.families.register"):
        fp.load(tmp_path / "mixed.safetensors")


def test_options_survive_a_file(tmp_path):
    circuit = fp.Circuit([fp.Input(0, Exponential(largest=3.0))], {0: {"rate": [2.0]}})
    circuit.save(tmp_path / "one.safetensors")
    assert fp.load(tmp_path / "one.safetensors").families == (Exponential(largest=3.0),)


def test_names_are_taken_once():
    assert fp.family(f"{__name__}.exponential", largest=2.0) == Exponential(2.0)
    assert fp.families.register(Exponential) is Exponential
    assert fp.family("exponential") == fp.Exponential()

    @fp.families.register
    class Twice(fp.Family):
        pass

    def another():
        class Twice(fp.Family):
            pass

        return Twice

    class WithInit(fp.Family):
        def __init__(self, a):
            pass

    for kind, message in ((another(), "already"), (WithInit, "dataclass"), (Exponential(), "class"), (int, "class")):
        with pytest.raises(OptionError, match=message):
            fp.families.register(kind)


def test_error_bars_need_statistics_and_free_numbers_alone():
    """In z = log rate a row tells 1 at the optimum, so that log p(x) is sure to |1 - rate x| / √n."""

    class Bare(fp.Family):
        names, statistic_names, discrete = ("rate",), ("count", "sum"), False
        log_density, statistics = Exponential.log_density, Exponential.statistics

    class Free(Bare):
        largest, unconstrain, constrain = 1e6, Exponential.unconstrain, Exponential.constrain

    X = np.random.default_rng(0).exponential(2.0, (400, 1))
    rate = 1 / X.mean()

    def circuit(family):
        return fp.Circuit([fp.Input(0, family)], {0: {"rate": [rate]}})

    free = circuit(Free())
    found = free.log_prob(X, uncertainty=fp.curvature.laplace(free, X)).error
    np.testing.assert_allclose(found, abs(1 - rate * X[:, 0]) / 20, rtol=1e-4, atol=1e-6)
    with pytest.raises(fp.FamilyError, match="unconstrain"):
        fp.curvature.laplace(circuit(Bare()), X)
