"""What learners share, whichever engine makes the passes: parameters in flat arrays, and the native M-step of weights."""

from flatpc.engine.numba._kernels.columns import Rule
from flatpc.engine.numba._kernels.update import CUBIC, CUBIC_EXACT, PLAIN, QUADRATIC, QUADRATIC_EXACT
from flatpc.engine.numba.packing import pack_masks, unpack_inputs, unpack_weights
from flatpc.engine.numba.program import Program
from flatpc.engine.numba.views import InputBlocks, input_block, input_view, weight_places
from flatpc.engine.numba.weight_update import update_weights

__all__ = [
    "CUBIC",
    "CUBIC_EXACT",
    "PLAIN",
    "QUADRATIC",
    "QUADRATIC_EXACT",
    "InputBlocks",
    "Program",
    "Rule",
    "input_block",
    "input_view",
    "pack_masks",
    "unpack_inputs",
    "unpack_weights",
    "update_weights",
    "weight_places",
]
