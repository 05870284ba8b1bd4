"""Native loops of the numba engine. Each file is one idea; `README.md` lists the traps."""
