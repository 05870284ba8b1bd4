"""The torch engine: layers of equal nodes, differentiable twice."""
