"""Learning: EM and gradient descent, sharpness-aware or plain, with schedules, and checkpoints."""

from flatpc.learning.fitting import Fit, fit
from flatpc.learning.regularizers.dropout import Dropout
from flatpc.learning.regularizers.entropy import Entropy
from flatpc.learning.regularizers.hyper_weights import HyperWeights
from flatpc.learning.regularizers.laplace import Laplace
from flatpc.learning.regularizers.prune_grow import PruneGrow
from flatpc.learning.regularizers.sam import ASAM, SAM
from flatpc.learning.regularizers.sharpness import Sharpness
from flatpc.learning.regularizers.softening import Softening
from flatpc.learning.run.history import History, degree_of_overfitting
from flatpc.learning.run.notes import LearningWarning
from flatpc.learning.run.schedules import cosine, linear, stages
from flatpc.learning.run.tensorboard import TensorBoard

__all__ = [
    "ASAM",
    "SAM",
    "Dropout",
    "Entropy",
    "Fit",
    "History",
    "HyperWeights",
    "Laplace",
    "LearningWarning",
    "PruneGrow",
    "Sharpness",
    "Softening",
    "TensorBoard",
    "cosine",
    "degree_of_overfitting",
    "fit",
    "linear",
    "stages",
]
