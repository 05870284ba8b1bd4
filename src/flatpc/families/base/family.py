"""`Family`, the base class of all families of input distributions."""

from __future__ import annotations

from dataclasses import dataclass

from flatpc.families.base.answers import Answers
from flatpc.families.base.by_torch import ByTorch
from flatpc.families.base.densities import Densities
from flatpc.families.base.gradients import Gradients
from flatpc.families.base.learning import Learning
from flatpc.families.base.several_variables import SeveralVariables
from flatpc.families.base.support import Support
from flatpc.families.base.units import Units


@dataclass(frozen=True)
class Family(Support, Densities, SeveralVariables, Learning, Gradients, Answers, Units, ByTorch):
    """Base class of all families of input distributions.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import flatpc as fp
    >>> @dataclass(frozen=True)
    ... class Laplace(fp.Family):
    ...     names = ("mean", "scale")
    ...     discrete = False
    ...
    ...     def log_density(self, parameters, x):
    ...         mean, scale = parameters["mean"], parameters["scale"]
    ...         return -abs(x[:, None] - mean) / scale - np.log(2 * scale)
    >>> circuit = fp.Circuit([fp.Input(0, Laplace())], {0: {"mean": [0.0], "scale": [1.0]}})
    >>> circuit.log_prob([[3.0]]).round(3).tolist()
    [-3.693]

    A subclass has to define `names` and `log_density`; each further method opens what needs it. What is asked of a family that
    doesn't define it raises `FamilyError`. Options of a family are fields of a frozen dataclass: they make families equal or
    different, and are saved in files.

    Arrays have N rows (values of the variable) and K units. No engine hands a missing value to a family: it is integrated out
    before.

    - Likelihoods, marginals and conditionals, on both engines, need `log_density`.
    - Checks of rows and of parameters: `outside` and `support`, `check_parameters`.
    - Random starts: `initialize`. Starts from data: `initialize_from`.
    - EM: `statistics`, `statistic_names`, `update`. With steps below 1 or momentum: `interpolate`, `restate`, where the
      defaults are wrong.
    - Adam and SGD: `unconstrain`, `constrain`, `gradient`, `statistics`.
    - `Circuit.sample`: `sample` or `quantile`.
    - `mpe`, `expectation`, `variance` and entropies: `mode`, `mean`, `variance`, `entropy`.
    - Probabilities of ranges: `cdf`, `quantile`.
    - Gradients in rows and parameters by torch: `torch_log_density`.
    - Learning in other units than the user's: `rescaled`.

    A family over several variables says how many by `n_variables`. Its x is `[N, d]`, and NaN in it is an unknown entry, which it
    integrates out itself: `log_density` is that of the known entries, `statistics` are expected ones given these. It also
    defines `marginal_family`, and for what is asked of unknown entries `sample_given`, `mode_given`, `log_density_at_mode` and
    `moments_given`; its `mode`, `mean` and `variance` are `[K, d]`.
    """
