"""Learning: EM and gradient descent, sharpness-aware or plain, with schedules, checkpoints and selection of μ."""

from flatpc.learning.compacting import compact
from flatpc.learning.dropout import Dropout
from flatpc.learning.entropy import Entropy
from flatpc.learning.fitting import Fit, fit
from flatpc.learning.growing import grow
from flatpc.learning.history import History, degree_of_overfitting
from flatpc.learning.hyper_weights import HyperWeights
from flatpc.learning.laplace import Laplace
from flatpc.learning.notes import LearningWarning
from flatpc.learning.prune_grow import PruneGrow
from flatpc.learning.pruning import prune
from flatpc.learning.sam import ASAM, SAM
from flatpc.learning.schedules import cosine, linear, stages
from flatpc.learning.selection import Candidate, Selection, select
from flatpc.learning.sharpness import Sharpness
from flatpc.learning.softening import Softening
from flatpc.learning.tensorboard import TensorBoard
from flatpc.learning.uncertainty import DropoutUncertainty, dropout_uncertainty

__all__ = [
    "ASAM",
    "SAM",
    "Candidate",
    "Dropout",
    "DropoutUncertainty",
    "Entropy",
    "Fit",
    "History",
    "HyperWeights",
    "Laplace",
    "LearningWarning",
    "PruneGrow",
    "Selection",
    "Sharpness",
    "Softening",
    "TensorBoard",
    "compact",
    "cosine",
    "degree_of_overfitting",
    "dropout_uncertainty",
    "fit",
    "grow",
    "linear",
    "prune",
    "select",
    "stages",
]
