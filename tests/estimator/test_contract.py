"""scikit-learn's own checks of what an estimator promises, and the tools that rely on it."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import flatpc as fp


@parametrize_with_checks([fp.CircuitDensity(verbose=False)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)
