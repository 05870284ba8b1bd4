"""Regularisers, one file each."""
