"""CRC-32C: known values, agreement with the package, and what loading it costs."""

import subprocess
import sys
from pathlib import Path

import crc32c as package
import pytest

from protocol.checksum import crc32c


def test_known_values() -> None:
    # RFC 3720, appendix B.4
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    for data in (b"", b"123456789", bytes(100_001)):
        assert crc32c(data) == crc32c(bytearray(data)) == crc32c(memoryview(data)) == package.crc32c(data)


def test_record_batches_load_neither_metadata_nor_compression_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # coverage imports some of them
    code = (
        "import sys, protocol.record_batch_builder, protocol.conversion, protocol.control_records;"
        "print([name for name in ('importlib.metadata', 'email', 'cramjam', 'zstandard', 'asyncio',"
        "'dataclasses') if name in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
