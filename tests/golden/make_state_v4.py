#!/usr/bin/env python3
"""Writes state-v4.bin: version 4 of a partition's state, with message ids behind the consumer groups of version 3, made without
our C code, from docs/format/commands.md."""
import struct
import sys

from make_state_v3 import crc32c, state as state_v3


def state():
    out = b"LQPS" + struct.pack("<HH", 4, 0) + state_v3()[8:-4]
    out += struct.pack("<I", 2)
    out += bytes(range(16)) + struct.pack("<QQQ", 998, 2, 1699999999990)
    out += bytes([0xEE] * 16) + struct.pack("<QQQ", 999, 3, 1700000000000)
    return out + struct.pack("<I", crc32c(out))


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        file.write(state())
