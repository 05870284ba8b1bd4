"""Structures over regions: sets of variables, cut at random or on a grid."""
