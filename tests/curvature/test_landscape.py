"""Landscapes: their middle, their filters, their grids, and that they can be drawn."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.curvature.directions import Coordinates
from flatpc.curvature.layout import Layout
from flatpc.errors import OptionError
from tests.curvature.cases import assert_close


@pytest.fixture(scope="module")
def problem():
    X = np.random.default_rng(0).integers(0, 2, (60, 6)).astype(float)
    return fp.structures.hclt(X[:40], n_latents=4), X[:40], X[40:]


@pytest.mark.parametrize("space", ["logits", "weights"])
def test_the_middle_is_the_circuit_itself(problem, space):
    circuit, X, V = problem
    found = fp.curvature.landscape(circuit, X, V, n_steps=3, space=space)
    assert found.train.shape == found.valid.shape == (3, 3)
    assert found.train[1, 1] == pytest.approx(-circuit.log_prob(X).mean(), rel=1e-12)
    assert found.valid[1, 1] == pytest.approx(-circuit.log_prob(V).mean(), rel=1e-12)


def test_first_index_is_the_first_direction(problem):
    circuit, X, _ = problem
    surface = fp.curvature.landscape(circuit, X, n_steps=5, seed=3)
    line = fp.curvature.landscape(circuit, X, n_steps=5, dimensions=1, directions=surface.directions[:1])
    assert_close(surface.train[:, 2], line.train, 1e-12)


def test_every_filter_has_the_length_of_the_models_own(problem):
    circuit, X, _ = problem
    layout = Layout(circuit)
    for space in ("logits", "weights"):
        found = fp.curvature.landscape(circuit, X, n_steps=3, space=space, dimensions=1)
        for i, direction in layout.arrays(found.directions[0]).items():
            own = np.log(circuit.parameters[i]) if space == "logits" else circuit.parameters[i]
            if space == "logits":
                own = own - own.mean(axis=1, keepdims=True)
            assert_close(np.linalg.norm(direction, axis=1), np.linalg.norm(own, axis=1), 1e-12)
            assert abs(direction.sum(axis=1)).max() < 1e-12


def test_logits_move_as_softmax_does(problem):
    circuit, X, _ = problem
    found = fp.curvature.landscape(circuit, X, n_steps=3, dimensions=1, radius=0.5)
    moved = {}
    for i, direction in Layout(circuit).arrays(found.directions[0]).items():
        weights = circuit.parameters[i] * np.exp(0.5 * direction)
        moved[i] = weights / weights.sum(axis=1, keepdims=True)
    assert found.train[2] == pytest.approx(-circuit.with_parameters(moved).log_prob(X).mean(), rel=1e-12)


def test_weights_are_clipped_to_the_simplex():
    circuit = fp.Circuit([fp.Input(0, fp.Bernoulli(), 2), fp.Sum((0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.1, 0.9]]})
    at = Coordinates(Layout(circuit), "weights").circuit_at(np.array([-0.4, 1.3]))
    assert at.parameters[1].tolist() == [[0.0, 1.0]]
    gone = Coordinates(Layout(circuit), "weights").circuit_at(np.array([-0.4, -1.3]))
    assert gone.parameters[1].tolist() == [[0.1, 0.9]]


def test_edges_of_weight_zero_stay():
    circuit = fp.Circuit([fp.Input(0, fp.Bernoulli(), 3), fp.Sum((0,))], {0: {"p": [0.2, 0.8, 0.5]}, 1: [[0.25, 0.75, 0.0]]})
    found = fp.curvature.landscape(circuit, [[1], [0]], dimensions=1, n_steps=3, radius=5.0)
    assert np.isfinite(found.train).all()
    assert found.directions[0, 2] == 0


def test_eigenvector_directions_are_the_steepest(problem):
    """To second order the loss rises by λ/2 · length² along an eigenvector."""
    circuit, X, _ = problem
    top = fp.curvature.eigenvalues(circuit, X, k=1, space="logits", reduction="mean")
    found = fp.curvature.landscape(circuit, X, dimensions=1, n_steps=3, radius=1e-4, directions="eigenvectors")
    bend = (found.train[0] - 2 * found.train[1] + found.train[2]) / 1e-8
    assert bend == pytest.approx(top.values[0] * np.linalg.norm(found.directions[0]) ** 2, rel=1e-3)


def test_inputs_can_move_too(problem):
    circuit, X, _ = problem
    found = fp.curvature.landscape(circuit, X, dimensions=1, n_steps=3, include_inputs=True)
    assert found.directions.shape[1] == Layout(circuit, True).size
    assert found.train[1] == pytest.approx(-circuit.log_prob(X).mean(), rel=1e-12)


def test_drawings(problem, tmp_path):
    circuit, X, V = problem
    surface = fp.curvature.landscape(circuit, X, V, n_steps=5)
    line = fp.curvature.landscape(circuit, X, n_steps=5, dimensions=1)
    for name, figure in {
        "contour": surface.plot(),
        "surface": surface.plot("surface", title="around a solution"),
        "line": line.plot(limits=(0.0, 10.0)),
    }.items():
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 1000
    assert [axes.get_title() for axes in surface.plot().axes if axes.get_title()] == ["train", "validation"]
    with pytest.raises(OptionError, match="kind='line'"):
        surface.plot("line")


def test_interactive_drawings(problem):
    pytest.importorskip("plotly")
    circuit, X, V = problem
    surface = fp.curvature.landscape(circuit, X, V, n_steps=3)
    drawn = surface.interactive().data
    assert [trace.name for trace in drawn] == ["train", "validation"]
    assert_close(np.asarray(drawn[0].z), surface.train.T, 1e-15)
    line = fp.curvature.landscape(circuit, X, n_steps=3, dimensions=1)
    assert_close(np.asarray(line.interactive().data[0].y), line.train, 1e-15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_steps": 4}, "odd number"),
        ({"dimensions": 3}, "dimensions=3"),
        ({"radius": 0}, "radius=0"),
        ({"space": "simplex"}, "space='simplex'"),
        ({"directions": "steepest"}, "directions='steepest'"),
        ({"directions": np.zeros((2, 3))}, "should have"),
    ],
)
def test_options_are_checked(problem, options, message):
    circuit, X, _ = problem
    with pytest.raises(OptionError, match=message):
        fp.curvature.landscape(circuit, X, **options)
