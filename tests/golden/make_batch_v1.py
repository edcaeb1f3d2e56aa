#!/usr/bin/env python3
"""Writes batch-v1.bin: version 1 of the record batch, made without our C code, from docs/format/batch.md alone.

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


def signed(value):
    return varint(value * 2 if value >= 0 else -value * 2 - 1)


def span(value):
    return signed(-1) if value is None else signed(len(value)) + value


def record(delta_ms, key, value, headers=()):
    inner = b"\0" + signed(delta_ms) + span(key) + span(value) + varint(len(headers))
    for name, content in headers:
        inner += varint(len(name)) + name + span(content)
    return varint(len(inner)) + inner


RECORDS = [
    record(0, None, b"hello"),
    record(5, b"key", b"", [(b"trace", b"\x00\xff"), (b"empty", b""), (b"null", None)]),
    record(-3, b"", None),
    record(70000, None, bytes(range(256)) * 2),
]


def batch():
    records = b"".join(RECORDS)
    length = 64 + len(records)
    covered = struct.pack("<BBHIQQQIIqII", 1, 0, 0, length, 0x1122334455667788, 41, 1700000000000, 3, len(RECORDS),
                          70000, len(records), 0) + records
    return b"LQRB" + struct.pack("<I", crc32c(covered)) + covered


if __name__ == "__main__":
    with open(sys.argv[1], "xb") as out:
        out.write(batch())
