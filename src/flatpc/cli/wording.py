"""The library's messages name arguments of Python; on the command line they are options.

>>> in_options("Pass missing='marginalize' to integrate missing values out, or fill them in.")
'Pass --missing marginalize to integrate missing values out, or fill them in.'
"""

from __future__ import annotations

import re

_REPLACED = [
    (r"kinds=\{'([^']+)': '(\w+)'\}", r"--kind \1=\2"),
    (r"\bdrop (it|the column)\b", "leave it out with --drop"),
    (r"kinds names the column", "--kind names the column"),
    (r"kinds says '([^']*)' of column", r"--kind says '\1' of column"),
    (r"structure='chow_liu'", "--structure chow-liu"),
    (r"structure='tree_mixture'", "--structure tree-mixture"),
    (r"\b(missing|unseen|method|mu|space|structure|effort)='([\w-]+)'", r"--\1 \2"),
    (r"\bn_latents\b", "--latents"),
    (r"\btime_budget\b", "--time-budget"),
    (r"\brandom_state\b", "--seed"),
    (r"regularizer=fp\.learning\.Laplace\(pseudocount=([\d.]+)\)", r"--pseudocount \1"),
    (r"pass valid=\.\.\.", "give --valid"),
    (r"\bn_steps=", "--steps "),
    (r"Sharpness\(mu=([^)]+)\)", r"--mu \1"),
    (r"\bstep_size=", "--step-size "),
    (r"that Circuit\.save wrote", "that flatpc fit or circuit.save wrote"),
]


def in_options(message: str) -> str:
    """The message with options in place of arguments."""
    for pattern, replacement in _REPLACED:
        message = re.sub(pattern, replacement, message)
    return message
