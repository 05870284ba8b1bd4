"""A run of learning: schedules, history, checkpoints, several processes."""
