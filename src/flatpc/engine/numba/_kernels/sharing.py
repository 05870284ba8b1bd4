"""Which rows agree inside a scope: ids of distinct sub-rows, once per data set and once per batch."""

import numpy as np
from numpy.typing import NDArray

from flatpc.engine.numba._kernels.compiling import inner, kernel
from flatpc.engine.numba._kernels.threads import ring
from flatpc.engine.numba._kernels.tickets import finish, hand_in, take

SCOPES_PER_TICKET = 16
"""Numbers in a cache line."""


def hash_table(n: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Room for n different keys and their numbers."""
    size = 16
    while size < 2 * n:
        size *= 2
    return np.empty(size, np.int64), np.empty(size, np.int32)


@inner
def _renumber(left, right, n_right, out, keys, number):
    """out[r]: number, in order of first occurrence, of the pair (left[r], right[r]); returns how many pairs there are."""
    n, mask = len(left), len(keys) - 1
    for slot in range(len(number)):
        number[slot] = -1
    count = 0
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
        for r in range(n):
            ids[s, r] = ids[first, r]
        count[s] = count[first]
        for q in range(part_ptr[s] + 1, part_ptr[s + 1]):
            other = part[q]
            if count[s] == n:  # already all different: numbered 0, 1, 2, ...
                break
            if count[other] == n:
                for r in range(n):
                    ids[s, r] = r
                count[s] = n
            else:
                count[s] = _renumber(ids[s], ids[other], count[other], ids[s], keys, number)


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
