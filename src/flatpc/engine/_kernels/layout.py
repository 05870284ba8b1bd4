"""Where a batch's numbers lie, and how a column's values become symbols."""

import numpy as np
from numba import njit


@njit(cache=True, boundscheck=False)
def pointers(scope, stride, count):
    """Starts of every step's values and per-row numbers, with the totals at the end."""
    n = len(scope)
    value_ptr = np.empty(n + 1, np.int64)
    row_ptr = np.empty(n + 1, np.int64)
    value_ptr[0] = 0
    row_ptr[0] = 0
    for s in range(n):
        value_ptr[s + 1] = value_ptr[s] + count[scope[s]] * stride[s]
        row_ptr[s + 1] = row_ptr[s] + count[scope[s]]
    return value_ptr, row_ptr


@njit(cache=True, boundscheck=False)
def symbols(x, out):
    """Number the distinct values of x in order of first occurrence; all NaN are one value. Returns how many there are."""
    n = len(x)
    size = 16
    while size < 2 * n:
        size *= 2
    mask = size - 1
    values = np.empty(size, np.float64)
    bits = values.view(np.int64)
    number = np.full(size, -1, np.int32)
    one = np.empty(1, np.float64)
    one_bits = one.view(np.int64)
    count = 0
    for r in range(n):
        one[0] = np.nan if x[r] != x[r] else x[r] + 0.0  # one NaN, one zero
        key = one_bits[0]
        h = key * np.int64(-7046029254386353131)
        slot = ((h >> 20) ^ (h >> 40)) & mask
        while number[slot] >= 0 and bits[slot] != key:
            slot = (slot + 1) & mask
        if number[slot] < 0:
            number[slot] = count
            bits[slot] = key
            count += 1
        out[r] = number[slot]
    return count
