"""Figures: what they compute, that they go on where they stopped, and what the committed ones show."""

import json
import math
import os
import re
from pathlib import Path

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import DataError, FlatpcError, OptionError
from flatpc.paper import figures
from flatpc.paper.collapse import ONE_GAUSSIAN
from flatpc.paper.figures import ablation, curves, landscape, latents, mnist, pruning, store, trace
from flatpc.paper.figures.runs import Run
from flatpc.paper.rivals import standard_normal

RESULTS = Path(__file__).parents[2] / "results"


class TestStore:
    def test_goes_on_where_it_stopped(self, tmp_path):
        path, seen = tmp_path / "some" / "figure.json", []

        def compute(piece):
            if piece["n"] == 3 and seen.count(3) == 0:
                seen.append(3)
                raise KeyboardInterrupt
            seen.append(piece["n"])
            return {"square": float(piece["n"] ** 2)}

        pieces = {f"piece {n}": {"n": n} for n in (1, 2, 3, 4)}
        with pytest.raises(KeyboardInterrupt):
            store.complete(path, pieces, compute)
        assert set(store.read(path)) == {"piece 1", "piece 2"}
        found = store.complete(path, pieces, compute)
        assert seen == [1, 2, 3, 3, 4]
        assert found == {f"piece {n}": {"square": n**2} for n in (1, 2, 3, 4)} == store.read(path)

    def test_a_piece_that_fails_does_not_stop_the_rest(self, tmp_path):
        path = tmp_path / "figure.json"
        pieces = {f"piece {n}": {"n": n} for n in (1, 0, 2)}
        with pytest.raises(FlatpcError, match=r"1 of 3 pieces of figure\.json failed.*piece 0: division by zero"):
            store.complete(path, pieces, lambda piece: {"inverse": 1 / piece["n"]})
        assert set(store.read(path)) == {"piece 1", "piece 2"}

    def test_computes_anew_what_is_declared_otherwise(self, tmp_path):
        path = tmp_path / "figure.json"
        store.complete(path, {"a": {"n": 1}, "b": {"n": 2}}, lambda piece: dict(piece))
        found = store.complete(path, {"a": {"n": 1}, "b": {"n": 5}}, lambda piece: {"n": 10 * piece["n"]})
        assert found == {"a": {"n": 1}, "b": {"n": 50}}

    def test_stops_at_the_deadline(self, tmp_path):
        pieces = {"a": {}, "b": {}}
        assert store.complete(tmp_path / "figure.json", pieces, lambda piece: {}, deadline=-math.inf) == {}

    def test_names_a_damaged_file(self, tmp_path):
        path = tmp_path / "figure.json"
        path.write_text('{"pieces": [')
        with pytest.raises(DataError, match=r"figure\.json"):
            store.read(path)

    def test_holds_what_json_holds(self):
        data = {"a": np.array([1 / 3, np.nan]), "b": (np.int64(3), np.float32(0.1)), "c": None, "d": "text", "e": True}
        assert json.loads(json.dumps(store.compact(data))) == {
            "a": [0.33333, None], "b": [3, 0.1], "c": None, "d": "text", "e": True,
        }  # fmt: skip


def test_every_figure_of_the_paper_is_declared():
    names = {name: figures.figure(name) for name in figures.FIGURES}
    pieces = {name: len(module.pieces()) for name, module in names.items()}
    twelve = 8 * len(curves.MANIFOLD_METHODS) + 4 * len(curves.BINARY_METHODS)
    assert pieces == {
        "figure-landscape": 3, "figure-curves": 5 * twelve, "figure-trace": 6, "figure-ablation": 36, "figure-latents": 63,
        "figure-datasets": 8, "figure-measures": 13, "figure-pruning": 2, "mnist": len(mnist.STAGES) + 2,
    }  # fmt: skip
    for name, module in names.items():
        assert 0 < len(module.pieces(quick=True)) <= 8, name
    with pytest.raises(OptionError, match="figure-speed"):
        figures.figure("figure-speed")


def drawn(name, found):
    """Draw in both ways; the plotly figures, as the page will have them."""
    for each in figures.plot(name, found).values():
        each.canvas.draw()
    panels = figures.draw(name, found)
    made = [json.loads(figure.to_json()) for panel in panels for figure in panel.figures.values()]
    assert made
    assert all(figure["data"] for figure in made)
    return made


def test_landscape():
    piece = landscape.pieces(quick=True)["two_moons"]
    data = store.compact(landscape.compute({**piece, "epochs": 5, "steps": 5, "line": 5, "eigenvalues": 3}), 12)
    for model in ("plain", "regularised"):
        of = data[model]
        assert np.shape(of["surface"]) == (5, 5)
        # The middle of surface and line is the model itself.
        assert of["surface"][2][2] == pytest.approx(of["nll"]["train"], rel=1e-9)
        assert of["line"]["train"][2] == pytest.approx(of["nll"]["train"], rel=1e-9)
        assert of["eigenvalues"]["weights"] == sorted(of["eigenvalues"]["weights"], reverse=True)
        assert landscape.rise(of)[2, 2] == 0
    assert len(drawn("figure-landscape", {"two_moons": data})) == 6


def test_curves():
    piece = next(iter(curves.pieces(quick=True).values()))
    found = {}
    for method in ("plain", "mu=0.01"):
        data = curves.compute({**piece, "method": method, "epochs": 6, "every": 3})
        assert [len(data[rows]) for rows in ("train", "valid")] == [6, 6]
        assert data["sharpness"]["epoch"] == [1, 3, 6]
        found[f"spiral 5% {method}"] = store.compact(data)
    assert found["spiral 5% plain"]["sharpness"]["weights"][-1] > found["spiral 5% mu=0.01"]["sharpness"]["weights"][-1]
    (figure,) = drawn("figure-curves", found)
    assert len(figure["data"]) == 2 * 3


def test_trace_is_autograds():
    depths = {f"depth {depth}": trace.compute({"kind": "depth", "depth": depth}) for depth in (1, 2)}
    assert all(row["difference"] < 1e-12 for row in depths.values())
    spiral = trace.compute({"kind": "epochs", **Run("spiral", 0.01, epochs=2).configuration, "every": 2})
    np.testing.assert_allclose(spiral["ours"], spiral["autograd"], rtol=1e-9)
    assert spiral["epoch"] == [1, 2]
    assert len(drawn("figure-trace", store.compact({"spiral": spiral, **depths}))) == 2


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("FLATPC_DATA"), reason="FLATPC_DATA is not set")
def test_ablation():
    pieces = ablation.pieces(quick=True)
    found = {name: store.compact(ablation.compute({**piece, "epochs": 5, "latents": 4})) for name, piece in pieces.items()}
    summary = ablation.summary(found)
    assert summary["mu"] == [0.0, 0.1, 1.0]
    assert summary["sharpness"][0] > summary["sharpness"][1] > summary["sharpness"][2]
    drawn("figure-ablation", found)


def test_ablation_means_and_errors():
    found = {
        f"{mu} {trial}": {"mu": mu, "valid": mu + trial, "overfitting": 2.0, "sharpness": 3.0, "best_valid": 0.0}
        for mu in (0.5, 0.0)
        for trial in (1.0, 3.0)
    }
    summary = ablation.summary(found)
    assert (summary["mu"], summary["valid"], summary["valid_error"]) == ([0.0, 0.5], [2.0, 2.5], [1.0, 1.0])


def test_latents():
    found = {
        f"{fraction} {n}": store.compact(latents.compute({"fraction": fraction, "latents": n, "seed": 0, "epochs": 15}))
        for fraction in (0.1, 0.5)
        for n in (2, 16)
    }
    for data in found.values():
        assert data["overfitting"] == pytest.approx(100 * (data["test"] - data["train"]) / abs(data["train"]), abs=0.01)
        assert data["test"] > data["truth"]  # nothing beats the true density on average
    small, large = latents.summary(found, 0.1, "gap")["mean"]
    assert large > small
    drawn("figure-latents", found)


def test_pruning():
    if "FLATPC_DATA" not in os.environ:
        pytest.skip("set FLATPC_DATA to the folder with the binary data sets")
    (piece,) = pruning.pieces(quick=True).values()
    data = store.compact(pruning.compute({**piece, "latents": 3, "epochs": 3}))
    for way in pruning.WAYS:
        assert sorted(data[way]["edges"], reverse=True) == data[way]["edges"]
        # As many edges whatever the way, and less for those who prune more.
        assert data[way]["edges"] == data["flow"]["edges"]
        assert data[way]["edges"][0] < data["whole"]["edges"]
        assert len(pruning.lost(data, way)) == len(pruning.FRACTIONS)
    assert len(drawn("figure-pruning", {"nltcs 5%": data})) == 2


def test_committed_pruning_by_curvature_keeps_more_of_what_is_left():
    """Of plants, with four fifths and more of the edges gone."""
    piece = figures.load("figure-pruning", RESULTS)["plants 10%"]
    few = [i for i, fraction in enumerate(pruning.FRACTIONS) if 0.7 <= fraction <= 0.9]
    for which in ("test", "tuned"):
        by_flow, by_damage = pruning.lost(piece, "flow", which), pruning.lost(piece, "damage", which)
        assert (by_damage[few] < by_flow[few]).all()


def test_quick_and_full_are_kept_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "pieces", lambda quick=False: {"depth 1": {"kind": "depth", "depth": 1, "quick": quick}})
    assert figures.load("figure-trace", tmp_path) == {}
    assert figures.missing("figure-trace", tmp_path) == ["depth 1"]
    quick = figures.compute("figure-trace", tmp_path, quick=True, progress=False)
    assert figures.is_quick("figure-trace", tmp_path)
    assert figures.load("figure-trace", tmp_path) == quick
    full = figures.compute("figure-trace", tmp_path, progress=False)
    assert not figures.is_quick("figure-trace", tmp_path)
    assert figures.load("figure-trace", tmp_path) == full
    assert figures.missing("figure-trace", tmp_path) == []


def test_runs_follow_the_protocols():
    run = Run("spiral", 0.05)
    data = run.data()
    assert len(data.train) == 50
    short = {"epochs": 1, "fraction": 0.05, "dataset": "spiral"}
    circuit = Run(**short).learn(data).circuit
    assert circuit.n_parameters == 1410  # ten repetitions of ten sums and ten inputs
    assert {node.family for node in circuit.nodes if isinstance(node, fp.Input)} == {fp.Gaussian(1e-4, 10.0)}
    assert Run(**short, protocol="code").learn(data).circuit.n_parameters == 705
    # The text draws its rows, the code takes the first ones.
    whole = Run("spiral", 1.0, protocol="code").data().train
    assert np.array_equal(Run("spiral", 0.05, protocol="code").data().train, whole[:50])
    assert not np.array_equal(data.train, whole[:50])


@pytest.mark.skipif(not (RESULTS / "figures").is_dir(), reason="no committed results here")
class TestCommitted:
    @pytest.mark.parametrize("name", figures.FIGURES)
    def test_every_piece_is_of_the_present_configuration(self, name):
        missing = figures.missing(name, RESULTS)
        if name == "mnist":  # larger ones take hours, and are committed as they come
            missing = [piece for piece in missing if piece in figures.load(name, RESULTS)]
        assert missing == []

    def test_the_formula_is_autograd(self):
        found = figures.load("figure-trace", RESULTS)
        assert found["spiral"]["largest_difference"] < 1e-9
        depths = [found[f"depth {depth}"] for depth in (1, 2, 3, 4, 5)]
        assert all(row["difference"] < 1e-9 for row in depths)
        ratios = [row["autograd_seconds"] / row["ours_seconds"] for row in depths]
        assert ratios[-1] > 20 * ratios[0] or ratios[-1] > 50

    def test_regularised_landscapes_are_flatter(self):
        found = figures.load("figure-landscape", RESULTS)
        assert set(found) == set(landscape.DATASETS)
        for data in found.values():
            plain, flat = (data[model] for model in ("plain", "regularised"))
            assert flat["eigenvalues"]["weights"][0] < plain["eigenvalues"]["weights"][0] / 5
            assert flat["trace"] < plain["trace"] / 10
            assert flat["nll"]["test"] < plain["nll"]["test"]
            assert np.median(landscape.rise(flat)) < np.median(landscape.rise(plain))

    def test_the_picture_of_the_readme_is_of_no_single_gaussian(self):
        readme = (RESULTS.parent / "README.md").read_text()
        (name,) = re.findall(r"images/figure-landscape-(\w+)\.png", readme)
        flat = figures.load("figure-landscape", RESULTS)[name]["regularised"]
        assert flat["trace"] > 2 * ONE_GAUSSIAN
        assert flat["nll"]["test"] < standard_normal(name) - 0.2

    def test_a_small_penalty_captures_most_of_the_gain(self):
        summary = ablation.summary(figures.load("figure-ablation", RESULTS))
        at = dict(zip(summary["mu"], zip(summary["overfitting"], summary["sharpness"], strict=True), strict=True))
        for i in (0, 1):
            gained, most = at[0.0][i] - at[0.1][i], at[0.0][i] - min(each[i] for each in at.values())
            assert gained > 0.8 * most > 0

    def test_overfitting_and_sharpness_grow_with_capacity(self):
        found = figures.load("figure-latents", RESULTS)
        for fraction in latents.FRACTIONS:
            gaps = latents.summary(found, fraction, "gap")["mean"]
            assert gaps[-1] > gaps[len(gaps) // 2] > gaps[0]
        half = latents.summary(found, 0.5, "sharpness")["mean"]
        assert half[-1] > half[0]
