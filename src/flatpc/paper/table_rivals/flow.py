"""A neural spline flow of zuko over all columns, stopped early by validation rows.

Codes of discrete columns and values of continuous ones are spread evenly over their cells while learning (uniform
dequantisation), so that the flow learns what is scored: log of the mean density over draws from a row's cell. That is at most
log P / r on average, and close to it with many draws. Missing codes are drawn from all values. In the plain score continuous
values stay as they are, and a second flow is learnt with them as they are.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from flatpc._extras import need
from flatpc._typing import Array
from flatpc.datasets.table_splits import TableSplits
from flatpc.paper.cells import Metrics
from flatpc.paper.table_rivals.rows import SCORES, Rows, Units

TRANSFORMS, HIDDEN, BINS = 3, (64, 64), 8
BATCH, RATE, PATIENCE, EPOCHS = 256, 3e-3, 12, 300
DRAWS = 32
"""From a row's cell, for its score."""


def flow_scores(data: TableSplits, seed: int, seconds: float) -> tuple[dict[str, Array], Metrics]:
    """Both scores of test rows, and of validation rows."""
    need("torch", "torch", "A flow")
    need("zuko", "rivals", "A flow")
    import torch

    units = Units.of(data)
    train, valid, test = (units.rows(rows) for rows in (data.train, data.valid, data.test))
    scores, more = {}, {}
    torch.set_num_threads(1)
    for name in SCORES if len(units.continuous) else ("bounded",):
        spread = _Spread(units, train, wide=name == "bounded")
        flow = _learnt(spread, train, valid, seed, seconds / 2)
        scores[name] = _scored(flow, spread, test, seed)
        more[f"valid_{'' if name == 'plain' else 'bounded_'}nll"] = -float(_scored(flow, spread, valid, seed).mean())
    if "plain" not in scores:
        scores["plain"], more["valid_nll"] = scores["bounded"], more["valid_bounded_nll"]
    return scores, more


class _Spread:
    """Rows with codes, and values if `wide`, spread over their cells; all standardised."""

    def __init__(self, units: Units, train: Rows, wide: bool) -> None:
        self.units, self.r = units, units.r if wide else np.zeros_like(units.r)
        self.n = np.array(units.n_values, float)
        codes = np.where(train.codes < 0, np.nan, train.codes.astype(float))
        self.scale = np.nanstd(codes, axis=0) + 0.3 if codes.shape[1] else np.ones(0)
        self.mean = np.nanmean(codes, axis=0) + 0.5 if codes.shape[1] else np.zeros(0)

    def __call__(self, rows: Rows, rng: np.random.Generator) -> tuple[Any, Array]:
        """Points, and the logarithm of what a density there is to be multiplied with."""
        import torch

        y = rows.y + (rng.random(rows.y.shape) - 0.5) * self.r
        gone = rows.codes < 0
        codes = np.where(gone, rng.integers(0, self.n, rows.codes.shape) if len(self.n) else 0, rows.codes)
        z = (codes + rng.random(codes.shape) - self.mean) / self.scale
        weight = (gone * np.log(self.n)).sum(axis=1) - np.log(self.scale).sum() - np.log(self.units.scale).sum()
        return torch.as_tensor(np.hstack([y, z]), dtype=torch.float32), weight


def _learnt(spread: _Spread, train: Rows, valid: Rows, seed: int, seconds: float) -> Any:
    import torch
    import zuko

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    n_columns = train.y.shape[1] + train.codes.shape[1]
    flow = zuko.flows.NSF(n_columns, transforms=TRANSFORMS, hidden_features=HIDDEN, bins=BINS)
    optimizer = torch.optim.Adam(flow.parameters(), lr=RATE)
    begin, best, state, worse = time.process_time(), np.inf, flow.state_dict(), 0
    judges = [spread(valid, rng)[0] for _ in range(4)]
    for _ in range(EPOCHS):
        order = rng.permutation(len(train))
        for i in range(0, len(order), BATCH):
            points, _ = spread(train[order[i : i + BATCH]], rng)
            loss = -flow().log_prob(points).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
            optimizer.step()
        with torch.no_grad():
            now = float(np.mean([-flow().log_prob(points).mean().item() for points in judges]))
        worse = 0 if now < best else worse + 1
        if now < best:
            best, state = now, {name: value.clone() for name, value in flow.state_dict().items()}
        if worse >= PATIENCE or time.process_time() - begin > seconds:
            break
        if worse and worse % 4 == 0:
            for group in optimizer.param_groups:
                group["lr"] /= 2
    flow.load_state_dict(state)
    return flow


def _scored(flow: Any, spread: _Spread, rows: Rows, seed: int) -> Array:
    import torch

    rng = np.random.default_rng(seed)
    logs = []
    with torch.no_grad():
        for _ in range(DRAWS):
            points, weight = spread(rows, rng)
            logs.append(flow().log_prob(points).double().numpy() + weight)
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(DRAWS))
