#!/usr/bin/env python3
"""Writes state-v3.bin: version 3 of a partition's state, with consumer groups, made without our C code, from
docs/format/commands.md alone.

The file is part of the contract: it is never written again. A later version of the format gets a file of its own.
"""
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def u16(value):
    return struct.pack("<H", value)


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def options(mode, flags, ack_wait_ms, max_deliver, max_unsettled, backoff):
    return (bytes([mode, flags]) + u16(len(backoff)) + u32(ack_wait_ms) + u32(max_deliver) + u32(max_unsettled)
            + b"".join(u32(delay) for delay in backoff))


def start(kind, offset=0, time_ms=0):
    return bytes([kind]) + bytes(7) + u64(offset) + u64(time_ms)


def group(number, generation, identity, begins, counts, opts, name, floor, runs, behind, failures, letters):
    out = u64(number) + u64(generation) + bytes([identity] * 16) + begins + b"".join(u64(count) for count in counts)
    out += opts + bytes([len(name)]) + name + u64(floor) + u32(len(runs))
    out += b"".join(varint(settled) + varint(holes) for settled, holes in runs) + varint(behind)
    out += u32(len(failures))
    expected = floor
    for offset, not_before_ms, delay_ms, count, reason, dead in failures:
        out += varint(offset - expected) + varint(not_before_ms) + varint(delay_ms) + varint(count)
        out += bytes([reason, dead])
        expected = offset + 1
    done, base, topic, epoch, still_open = letters
    out += u64(done) + u64(base) + bytes([topic] * 16) + u32(epoch) + u32(len(still_open))
    for offset, failed_ms, count, reason in still_open:
        out += varint(offset) + varint(failed_ms) + varint(count) + bytes([reason])
    return out


def state():
    out = b"LQPS" + u16(3) + u16(0)
    # start, end, applied index and term, timestamp, digest, bytes, start bytes, append_ms
    for word in (100, 1000, 77, 3, 1700000000000, 0x1122334455667788, 50000, 4000, 1700000000000):
        out += u64(word)
    out += bytes([0xAB] * 16) + u32(5)
    out += bytes([4]) + u64(0) + u64(3600000) + u64(0) + u64(1048576)
    out += u64(65536) + u64(1000) + u32(1) + u64(90) + u64(3900) + u64(1690000000000)
    out += u32(0)
    out += u32(2)
    out += group(12, 12, 1, start(3, 40), (300, 0, 0, 0, 0, 1699999999000), options(1, 4, 30000, 5, 100000, []),
                 b"audit", 340, [], 0, [], (0, 0, 0, 0, []))
    out += group(20, 61, 2, start(4, 150, 1690000000500), (410, 9, 60, 100, 160, 1699999999500),
                 options(2, 2, 15000, 3, 5000, [100, 2000]), b"orders.eu", 200, [(0, 1), (299, 12), (1, 70)], 40,
                 [(200, 1699999990000, 2000, 2, 1, 0), (505, 1699999991000, 0, 3, 2, 1)],
                 (4, 2, 0xCD, 1, [(505, 1699999991000, 3, 2)]))
    return out + u32(crc32c(out))


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        file.write(state())
