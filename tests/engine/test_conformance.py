"""Every engine, on every structure, family, precision and kind of evidence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flatpc.engine.contract import ENGINES, get_engine
from tests.engine import conformance
from tests.oracles import evaluate, random_circuits
from tests.oracles import flows as flows_by_definition

engines = pytest.mark.parametrize("engine", ENGINES)
cases = pytest.mark.parametrize("case", conformance.circuits())
random = settings(max_examples=60)


@engines
@cases
@pytest.mark.parametrize("evidence", conformance.EVIDENCE)
@pytest.mark.parametrize("dtype", conformance.DTYPES)
class TestStructures:
    def test_log_prob(self, engine, case, evidence, dtype):
        conformance.check_log_prob(engine, case, evidence, dtype)

    def test_units(self, engine, case, evidence, dtype):
        conformance.check_units(engine, case, evidence, dtype)

    def test_flows(self, engine, case, evidence, dtype):
        conformance.check_flows(engine, case, evidence, dtype)


@engines
@cases
def test_flows_are_derivatives(engine, case):
    conformance.check_derivatives(engine, *conformance.some_missing(conformance.circuits()[case]))


@engines
@pytest.mark.parametrize(
    "case", [name for name, c in conformance.circuits().items() if all(f.n_categories for f in c.families) and c.n_variables < 7]
)
def test_assignments_add_up_to_one(engine, case):
    conformance.check_total(engine, conformance.circuits()[case])


@cases
@pytest.mark.parametrize("evidence", ["some_missing", "contradictory", "impossible"])
def test_engines_agree(case, evidence):
    conformance.check_agreement(*conformance.EVIDENCE[evidence](conformance.circuits()[case]))


def test_evidence_is_what_it_says():
    """The hard kinds of evidence really occur: rows of probability 0, and rows that underflow without scaling."""
    _, _, impossible, _, _ = conformance.situation("hmm-bernoulli", "impossible")
    assert np.isneginf(impossible[-1]).any()
    assert np.isfinite(impossible[-1]).any()
    _, _, contradictory, _, _ = conformance.situation("hmm-binomial", "contradictory")
    assert (contradictory[-1] < -800).any()
    assert np.isfinite(contradictory[-1]).all()
    _, _, outliers, _, _ = conformance.situation("rat_spn-gaussian", "outliers")
    assert (outliers[-1] < -1e11).any()


@engines
class TestRandomCircuits:
    @random
    @given(data=st.data())
    def test_assignments_add_up_to_one(self, engine, data):
        conformance.check_total(engine, data.draw(random_circuits.circuits(max_variables=10)))

    @random
    @given(data=st.data())
    def test_units(self, engine, data):
        circuit = data.draw(random_circuits.circuits(families="all"))
        X = data.draw(random_circuits.rows(circuit))
        for found, value in zip(get_engine(engine).unit_values(circuit, X), evaluate.log_values(circuit, X), strict=True):
            conformance.close(found, value, 1e-10)
        for found, flow in zip(
            get_engine(engine).unit_flows(circuit, X), flows_by_definition.unit_flows(circuit, X), strict=True
        ):
            conformance.close(found, flow, 1e-10)

    @random
    @given(data=st.data())
    def test_flows_are_derivatives(self, engine, data):
        circuit = data.draw(random_circuits.circuits(families="all"))
        conformance.check_derivatives(engine, circuit, data.draw(random_circuits.rows(circuit)))

    @random
    @given(data=st.data())
    def test_flows(self, engine, data):
        kind = data.draw(st.sampled_from([random_circuits.circuits, random_circuits.scalar_trees, random_circuits.scalar_dags]))
        circuit = data.draw(kind(families="all"))
        X = data.draw(random_circuits.rows(circuit))
        weights = np.random.default_rng(0).uniform(0, 2, len(X))
        found = get_engine(engine).flows(circuit, X, weights=weights)
        conformance.close_flows(found, *flows_by_definition.flows(circuit, X, weights), 1e-10)


@random
@given(data=st.data())
def test_engines_agree_on_random_circuits(data):
    circuit = data.draw(random_circuits.circuits(families="all"))
    conformance.check_agreement(circuit, data.draw(random_circuits.rows(circuit)))


@random
@given(data=st.data())
def test_scalar_trees_are_trees(data):
    """The strategies keep their promises."""
    assert data.draw(random_circuits.scalar_trees()).is_tree
    assert set(data.draw(random_circuits.scalar_dags()).widths) == {1}
