"""Learning: EM and gradient descent, sharpness-aware or plain, with schedules, and checkpoints."""

from flatpc.learning.conditional import ConditionalFit, fit_conditional
from flatpc.learning.fitting import Fit, fit
from flatpc.learning.regularizers.base import Regularizer
from flatpc.learning.regularizers.dropout import Dropout
from flatpc.learning.regularizers.em_update import EMUpdate
from flatpc.learning.regularizers.entropy import Entropy
from flatpc.learning.regularizers.hyper_weights import HyperWeights
from flatpc.learning.regularizers.laplace import Laplace
from flatpc.learning.regularizers.prune_grow import PruneGrow
from flatpc.learning.regularizers.registry import register_regularizer, regularizer_names
from flatpc.learning.regularizers.sam import ASAM, SAM
from flatpc.learning.regularizers.sharpness import Sharpness
from flatpc.learning.regularizers.softening import Softening
from flatpc.learning.regularizers.weighted_trace import WeightedTrace
from flatpc.learning.run.history import History, degree_of_overfitting
from flatpc.learning.run.notes import LearningWarning
from flatpc.learning.run.options import Run
from flatpc.learning.run.schedules import cosine, linear, stages
from flatpc.learning.run.stopping import Stopping
from flatpc.learning.run.tensorboard import TensorBoard
from flatpc.learning.steps.adam import Adam
from flatpc.learning.steps.em import EM
from flatpc.learning.steps.em_learner import Statistics
from flatpc.learning.steps.em_step import EMStep
from flatpc.learning.steps.newton import NaturalGradient, Newton
from flatpc.learning.steps.sgd import SGD
from flatpc.learning.updating import Update, forget, learn

__all__ = [
    "ASAM",
    "EM",
    "SAM",
    "SGD",
    "Adam",
    "ConditionalFit",
    "Dropout",
    "EMStep",
    "EMUpdate",
    "Entropy",
    "Fit",
    "History",
    "HyperWeights",
    "Laplace",
    "LearningWarning",
    "NaturalGradient",
    "Newton",
    "PruneGrow",
    "Regularizer",
    "Run",
    "Sharpness",
    "Softening",
    "Statistics",
    "Stopping",
    "TensorBoard",
    "Update",
    "WeightedTrace",
    "cosine",
    "degree_of_overfitting",
    "fit",
    "fit_conditional",
    "forget",
    "learn",
    "linear",
    "register_regularizer",
    "regularizer_names",
    "stages",
]
