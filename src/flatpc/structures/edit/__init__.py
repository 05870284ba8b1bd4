"""New circuits from old ones: mix, prune, grow, compact."""
