"""How a circuit is evaluated: one contract, two engines, evidence sharing."""
