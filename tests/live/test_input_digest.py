"""The digest of the input: the same however batches are cut, another for every other input."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from queryveil.live.checkpoint import InputDigest

KEY = hashlib.sha256(b"a run").digest()
lines = st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=30)


def sip_hash(key, data):
    """SipHash-2-4 as its paper has it, with whole numbers; 0 is written as 1."""
    full, (low, high) = 2**64 - 1, (int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little"))
    v = [low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D, low ^ 0x6C7967656E657261, high ^ 0x7465646279746573]

    def turned(word, bits):
        return (word << bits | word >> (64 - bits)) & full

    def rounds(count):
        for _ in range(count):
            for a, b, left, turn in ((0, 1, 13, 0), (2, 3, 16, None), (0, 3, 21, None), (2, 1, 17, 2)):
                v[a] = (v[a] + v[b]) & full
                v[b] = turned(v[b], left) ^ v[a]
                if turn is not None:
                    v[turn] = turned(v[turn], 32)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return (v[0] ^ v[1] ^ v[2] ^ v[3]) or 1


def plainly(records, taken=0):
    """The digest as its definition says, record by record."""
    total = 0
    for number, line in enumerate(records, taken):
        place = 2 * number + (line is None)
        mark = sip_hash(KEY[:16], line or b"")
        total += sip_hash(KEY[16:], mark.to_bytes(8, "little") + place.to_bytes(8, "little"))
    return f"{total % 2**64:016x}"


@given(lines, st.integers(0, 2**40))
def test_the_digest_is_the_sum_of_its_definition(records, taken):
    assert InputDigest(KEY).after("", taken, records) == plainly(records, taken)


@given(lines, st.integers(0, 30))
def test_where_batches_are_cut_does_not_matter(records, cut):
    digest = InputDigest(KEY)
    first, rest = records[:cut], records[cut:]
    assert digest.after(digest.after("", 0, first), len(first), rest) == digest.after("", 0, records)


@given(lines, lines)
def test_other_records_another_order_or_another_key_have_another_digest(records, others):
    digest, whole = InputDigest(KEY), InputDigest(KEY).after("", 0, records)
    assert (digest.after("", 0, others) == whole) == (others == records)
    assert (digest.after("", 0, records[::-1]) == whole) == (records[::-1] == records)
    assert digest.after("", 1, records) != whole
    assert InputDigest(KEY[::-1]).after("", 0, records) != whole
