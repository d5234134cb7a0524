"""Files of users: what is no file, is damaged, or claims too much ends in one line."""

import gzip
import io
import json
import os
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rayfed.core import files
from rayfed.core.errors import ScenarioError
from rayfed.core.files import check_room, read_arrays, read_frame, read_json, reading
from rayfed.core.machine import in_words


def header(shape, descr="<f8"):
    """Return the header of an array in NumPy's format, without its numbers."""
    held = io.BytesIO()
    fields = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(held, fields)
    return held.getvalue()


def packed(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


@pytest.fixture
def little(monkeypatch):
    """Let this machine have 20 MiB of memory."""
    monkeypatch.setattr(files, "available_bytes", lambda: 20 * 2**20)


@pytest.mark.parametrize("reader", [read_arrays, read_frame, read_json])
@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("pipe", "is not a regular file; give the path of one"),
        ("device", "is not a regular file; give the path of one"),
        ("folder", "cannot be read: Is a directory"),
        ("nothing", "cannot be read: No such file or directory"),
    ],
)
def test_only_regular_files_are_opened(reader, kind, line, tmp_path):
    path = tmp_path / "it.csv"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(ScenarioError) as refused, reading(path, "it"):
        reader(path)
    assert str(refused.value) == f"{path}: {line}"


def test_what_a_reader_raises_is_one_line(tmp_path):
    path = tmp_path / "it"
    path.touch()
    errors = {
        ValueError("first\nsecond"): "(first)",
        KeyError("x"): "(KeyError: 'x')",
        RecursionError(): "(its parts lie too deep in each other)",
        MemoryError(): "(it needs more memory than is available)",
        NotImplementedError(f"{path} is new"): "(NotImplementedError: it is new)",
        EOFError(): "(EOFError)",
    }
    for error, why in errors.items():
        with pytest.raises(ScenarioError) as refused, reading(path, "a thing", "mend it"):
            raise error
        assert str(refused.value) == f"{path}: cannot be read as a thing {why}; mend it"
    with pytest.raises(ScenarioError) as refused, reading(path, "a thing", "mend it", "problem.it"):
        raise ValueError("wrong")
    assert str(refused.value) == "problem.it: 'it' cannot be read as a thing (wrong); mend it"
    with pytest.raises(KeyboardInterrupt), reading(path, "a thing"):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (header((10**7, 10**7)), r"'X' claims the shape \(10000000, 10000000\), and holds less"),
        (header((2**62, 16)), "'X' claims the shape .* and holds less"),
        (header((-5, 3)) + b"\0" * 120, r"'X' claims the shape \(-5, 3\), and holds less"),
        (header((3,)) + b"\0" * 23, "'X' claims the shape .* and holds less"),
        (header((1,), "|O") + b"\0" * 99, "'X' holds Python objects, which could run code"),
        (b"a text", "'X' is no array of NumPy's"),
        (b"\x93NUMPY\x03\x00" + b"\0" * 99, "'X' is no array of NumPy's"),
        (b"\x93NUMPY\x01\x00" + struct.pack("<H", 3000) + b"(" * 3000, "TokenError"),
    ],
)
def test_arrays_that_are_not_what_they_claim(content, line, tmp_path):
    path = packed(tmp_path / "it.npz", X=content, y=header((2,)) + b"\0" * 16)
    with pytest.raises(ScenarioError, match=line), reading(path, "arrays"):
        read_arrays(path)


def test_arrays_are_read_as_numpy_reads_them(tmp_path):
    held = {"X": np.arange(6.0).reshape(2, 3), "none": np.zeros((0, 3)), "one": np.array(7)}
    np.savez(tmp_path / "it.npz", **held)
    np.savez_compressed(tmp_path / "small.npz", **held)
    np.save(tmp_path / "it.npy", held["X"])
    for name in ("it.npz", "small.npz"):
        found = read_arrays(tmp_path / name)
        assert found.keys() == held.keys()
        for key, values in held.items():
            np.testing.assert_array_equal(found[key], values, strict=True)
    np.testing.assert_array_equal(read_arrays(tmp_path / "it.npy")["x"], held["X"], strict=True)


def test_arrays_larger_than_the_memory_are_refused_by_their_headers(little, tmp_path):
    """An archive of 3 kB may hold 3 MB for each array; seven of them are more than 20 MiB."""
    blank = header((2**22 - 2**17,), "|u1") + bytes(2**22 - 2**17)
    path = packed(tmp_path / "it.npz", **{f"X{k}": blank for k in range(6)})
    assert path.stat().st_size < 10**5
    with pytest.raises(ScenarioError, match=r"its arrays take about 23\.2 MiB of memory, but 20.0"):
        read_arrays(path)


def test_json_in_the_deep_and_json_in_gigabytes(little, tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="lie too deep in each other"):
        read_json(tmp_path / "deep.json")
    (tmp_path / "long.json").write_text(json.dumps("x" * 2**22))
    with pytest.raises(ScenarioError, match=r"long\.json: its values take about 32.0 MiB"):
        read_json(tmp_path / "long.json")


def test_tables_larger_than_the_memory_are_refused_before_they_are_read(little, tmp_path):
    rows = b"a,y\n" + b"1,2\n" * 500_000
    for name in ("it.csv", "it.csv.gz"):
        packed = gzip.compress(rows, 1) if name.endswith("gz") else rows
        (tmp_path / name).write_bytes(packed)
        with pytest.raises(ScenarioError, match=f"{name}: its cells take about .* but 20.0 MiB"):
            read_frame(tmp_path / name)
    alike = pa.table({"y": np.zeros(2 * 10**6)})  # 2 million zeros in a few kB
    pq.write_table(alike, tmp_path / "it.parquet")
    assert (tmp_path / "it.parquet").stat().st_size < 10**5
    with pytest.raises(ScenarioError, match=r"it\.parquet: its cells take about .* but 20.0 MiB"):
        read_frame(tmp_path / "it.parquet")


def test_room_is_what_the_machine_has(little):
    check_room(20 * 2**20, "here", "they", "less")
    with pytest.raises(ScenarioError) as refused:
        check_room(20 * 2**20 + 2**17, "here", "they", "give less")
    line = "here: they take about 20.1 MiB of memory, but 20.0 MiB are available; give less"
    assert str(refused.value) == line


def test_sizes_have_the_unit_that_suits_them():
    """Of free memory 0.0 GiB says nothing."""
    said = [in_words(size) for size in (0, 1023, 1023.6, 2**20 - 1, 99.9 * 2**20, 100 * 2**20)]
    assert said == ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "99.9 MiB", "100 MiB"]
    assert in_words(2**30 * 1.25) == "1.2 GiB"
    assert in_words(2.0**90) == "1099511627776 PiB"
