"""Learning: EM and gradient descent, sharpness-aware or plain, with schedules, checkpoints and selection of μ."""

from flatpc.learning.fit import Fit, fit
from flatpc.learning.history import History, degree_of_overfitting
from flatpc.learning.notes import LearningWarning
from flatpc.learning.rivals import ASAM, SAM
from flatpc.learning.schedules import cosine, linear, stages
from flatpc.learning.sharpness import Sharpness

__all__ = [
    "ASAM",
    "SAM",
    "Fit",
    "History",
    "LearningWarning",
    "Sharpness",
    "cosine",
    "degree_of_overfitting",
    "fit",
    "linear",
    "stages",
]
