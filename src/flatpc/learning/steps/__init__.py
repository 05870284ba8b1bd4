"""Steps of learning: EM and gradients."""
