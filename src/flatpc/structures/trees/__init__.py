"""Structures along a tree over the variables."""
