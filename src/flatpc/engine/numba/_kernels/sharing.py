"""Which rows agree inside a scope: ids of distinct sub-rows, once per data set and once per batch."""

import numpy as np
from numpy.typing import NDArray

from flatpc.engine.numba._kernels.compiling import inner, kernel, whole
from flatpc.engine.numba._kernels.threads import ring
from flatpc.engine.numba._kernels.tickets import finish, hand_in, take

SCOPES_PER_TICKET = 16
"""Numbers in a cache line."""
ROWS_AT_ONCE = 16
"""Of a table whose columns are numbered: what is written of a column fills a cache line."""
SMALL = 256
"""Whole numbers below it are looked up rather than hashed."""


def hash_table(n: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Room for n different keys and their numbers."""
    size = 16
    while size < 2 * n:
        size *= 2
    return np.empty(size, np.int64), np.empty(size, np.int32)


@inner
def _renumber(left, n_left, right, n_right, out, keys, number):
    """out[r]: number, in order of first occurrence, of the pair (left[r], right[r]); returns how many pairs there are."""
    n = len(left)
    few = n_left * n_right <= len(number)  # each pair has a place of its own
    for slot in range(n_left * n_right if few else len(number)):
        number[slot] = -1
    count = 0
    if few:
        for r in range(n):  # no branches, which nobody could predict
            slot = np.int64(left[r]) * n_right + right[r]
            u = number[slot]
            new = u < 0
            u = count if new else np.int64(u)
            number[slot] = u
            count += new
            out[r] = u
        return count
    mask = len(keys) - 1
    for r in range(n):
        key = np.int64(left[r]) * n_right + right[r]
        slot = ((key * np.int64(-7046029254386353131)) >> 20) & mask
        while number[slot] >= 0 and keys[slot] != key:
            slot = (slot + 1) & mask
        if number[slot] < 0:
            number[slot] = count
            keys[slot] = key
            count += 1
        out[r] = number[slot]
    return count


@kernel
def number_sub_rows(codes, n_codes, part_ptr, part, ids, count, keys, number):
    """ids[s, r]: which of scope s's distinct sub-rows row r has; numbered in order of first occurrence."""
    n = codes.shape[1]
    for s in range(len(part_ptr) - 1):
        first = part[part_ptr[s]]
        if first < 0:
            v = -1 - first
            for r in range(n):
                ids[s, r] = codes[v, r]
            count[s] = n_codes[v]
            continue
        begin = first
        count[s] = count[first]
        for q in range(part_ptr[s] + 1, part_ptr[s + 1]):
            other = part[q]
            if count[s] == n:  # already all different: numbered 0, 1, 2, ...
                break
            if count[other] == n:
                begin = other
                count[s] = n
            else:
                count[s] = _renumber(ids[begin], count[s], ids[other], count[other], ids[s], keys, number)
                begin = s
        if begin != s:
            for r in range(n):
                ids[s, r] = ids[begin, r]


@kernel
def plan_batch(ids, rows, number, where, representative, count, t, n_threads, progress, bell):
    """Number the sub-rows of one batch, in order of first occurrence.

    ids[r, s]: which of scope s's distinct sub-rows row r of the data set has; where[s, b]: number of batch row b's sub-row in
    scope s; representative[s, u]: a batch row that has sub-row u. `number` is scratch of -1 for each thread, one entry per
    distinct sub-row of the scope that has most, and is left as it was found.
    """
    ring(bell, t, n_threads)
    n_batch, n_scopes = len(rows), ids.shape[1]
    # A few scopes at a time: rows of the table are far apart, and each is fetched a cache line at a time.
    some = np.empty((SCOPES_PER_TICKET, n_batch), np.int32)
    n_tickets = -(-n_scopes // SCOPES_PER_TICKET)
    ticket = take(progress)
    while ticket < n_tickets:
        start = ticket * SCOPES_PER_TICKET
        n = min(SCOPES_PER_TICKET, n_scopes - start)
        for b in range(n_batch):
            row = ids[rows[b], start : start + n]
            for j in range(n):
                some[j, b] = row[j]
        for j in range(n):
            s = start + j
            count[s] = _number_batch(some[j], number[t], where[s], representative[s])
        hand_in(progress, ticket)
        ticket = take(progress)
    finish(progress, n_tickets, t)


@inner
def _number_batch(of_row, number, where, representative):
    """The same for one scope, whose sub-rows `of_row` has; returns how many are in the batch."""
    n = len(of_row)
    if n == 0:
        return 0
    first, differ = of_row[0], np.int32(0)
    for b in range(n):
        d = np.int32(of_row[b] ^ first)
        where[b] = d
        differ = np.int32(differ | d)
    representative[0] = 0
    if differ == 0:  # all the same, as is frequent in sparse data
        return 1
    if differ == 1:  # two sub-rows: a binary variable
        b = 1
        while where[b] == 0:
            b += 1
        representative[1] = b
        return 2
    found = 0
    for b in range(n):  # no branches, which nobody could predict
        x = np.uint32(of_row[b])
        u = number[x]
        new = u < 0
        u = found if new else np.int64(u)
        number[x] = u
        representative[found] = b
        found += new
        where[b] = u
    for u in range(found):
        number[of_row[representative[u]]] = -1
    return found


@kernel
def plan_whole(ids, where, representative, count):
    """The same for a batch that is the whole of `ids`, whose numbering already is in order of first occurrence."""
    for s in range(ids.shape[0]):
        found = 0
        for b in range(ids.shape[1]):
            u = ids[s, b]
            where[s, b] = u
            if u == found:
                representative[s, u] = b
                found += 1
        count[s] = found


@kernel
def small_symbols(X, out, count, number):
    """The same as `symbols` for every column of rows at once, where all are small whole numbers or unknown; others count -1.

    out[v, r]: number of the value of row r in column v; number[v]: scratch, `SMALL` + 1 places.
    """
    n, n_columns = X.shape
    for v in range(n_columns):
        count[v] = 0
        for k in range(SMALL + 1):
            number[v, k] = -1
    for start in range(0, n, ROWS_AT_ONCE):
        end = min(start + ROWS_AT_ONCE, n)
        for v in range(n_columns):
            if count[v] < 0:
                continue
            for r in range(start, end):
                x = X[r, v]
                k = SMALL
                if x >= 0.0 and x < SMALL:
                    k = whole(x)
                    if k != x:
                        count[v] = -1
                        break
                elif x == x:
                    count[v] = -1
                    break
                u = number[v, k]
                if u < 0:
                    u = np.int32(count[v])
                    number[v, k] = u
                    count[v] += 1
                out[v, r] = u


@kernel
def symbols(bits, out, keys, number):
    """Number the distinct entries in order of first occurrence; returns how many there are."""
    n, mask = len(bits), len(keys) - 1
    for slot in range(len(number)):
        number[slot] = -1
    count = 0
    for r in range(n):
        key = bits[r]
        h = key * np.int64(-7046029254386353131)
        slot = ((h >> 20) ^ (h >> 40)) & mask
        while number[slot] >= 0 and keys[slot] != key:
            slot = (slot + 1) & mask
        if number[slot] < 0:
            number[slot] = count
            keys[slot] = key
            count += 1
        out[r] = number[slot]
    return count
