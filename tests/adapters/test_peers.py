"""The libraries that `python -m benchmarks peers` compares with still build what it asks of them, as large as ours."""

from importlib.util import find_spec

import numpy as np
import pytest
from benchmarks import peers

MODULES = {"libcirkit": "cirkit", "spflow": "spflow"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("peer", peers.PEERS, ids=lambda peer: peer.package)
def test_weights_are_equal_in_number_and_steps_are_finite(peer: peers.Peer) -> None:
    if find_spec(MODULES[peer.package]) is None:
        pytest.skip(f"needs {peer.package}: {peer.install}")
    X = peers.generated_rows(6, n_rows=peers.BATCH, seed=0)
    theirs = peer.build(X)
    assert theirs.n_weights in {peers.n_sum_weights(build(X)) for build in peer.meets}
    for step in theirs.steps.values():
        assert np.isfinite(step())
