"""Archives whose entries unpack to hundreds of megabytes, made without compressing as much."""

from __future__ import annotations

import struct
import zipfile
import zlib


def add_repeated(archive: zipfile.ZipFile, name: str, head: bytes, block: bytes, times: int) -> None:
    """Adds an entry that unpacks to `head` and then `block`, many times. The block is compressed once.

    After a full flush nothing refers to earlier data, so what the block was compressed to may be repeated as well.
    """
    pack = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    first, once = (pack.compress(data) + pack.flush(zlib.Z_FULL_FLUSH) for data in (head, block))
    checksum = zlib.crc32(head)
    for _ in range(times):
        checksum = zlib.crc32(block, checksum)

    info = zipfile.ZipInfo(name)
    archive.writestr(info, first + once * times + pack.flush(), zipfile.ZIP_STORED)
    # Only now does the entry say that its bytes are compressed: here for the directory at the end, and in front of them.
    info.compress_type, info.CRC, info.file_size = zipfile.ZIP_DEFLATED, checksum, len(head) + times * len(block)
    assert archive.fp is not None
    end = archive.fp.tell()
    archive.fp.seek(info.header_offset + 8)
    archive.fp.write(struct.pack("<H", info.compress_type))
    archive.fp.seek(info.header_offset + 14)
    archive.fp.write(struct.pack("<3L", info.CRC, info.compress_size, info.file_size))
    archive.fp.seek(end)
