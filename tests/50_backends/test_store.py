"""What is stored on disk: it stays below its bound, and neither torn files nor other processes get in the way."""

import os
import subprocess
import sys

import pytest

from tilegen.backends.system.store import Store, store
from tilegen.errors import UsageError


@pytest.fixture
def place(tmp_path):
    return Store(tmp_path / "tilegen", 10_000)


def only_file(place):
    (path,) = place.folder.iterdir()
    return path


def use_at(place, key, seconds):
    """As if `key` had been used last so many seconds after 1970."""
    os.utime(place._path(key), (seconds, seconds))


def test_a_value_is_there_for_the_next_one_to_ask(place):
    assert place.load("a") is None
    place.save("a", {"text": "x", "grid": (1, 2)})
    assert Store(place.folder, place.bound).load("a") == {"text": "x", "grid": (1, 2)}
    assert place.load("b") is None
    assert place.contents().entries == 1


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:20], lambda data: data[:-1] + b"?"])
def test_a_damaged_value_is_missing_and_goes(place, damage):
    place.save("a", "a value")
    path = only_file(place)
    path.write_bytes(damage(path.read_bytes()))
    assert place.load("a") is None
    assert not path.exists()
    place.save("a", "another")
    assert place.load("a") == "another"


def test_a_value_of_a_type_that_is_gone_is_missing(place, monkeypatch):
    place.save("a", Store(place.folder, 1))
    monkeypatch.delattr("tilegen.backends.system.store.Store")
    assert place.load("a") is None


def test_what_was_used_least_recently_makes_room(place):
    for second, key in enumerate("abc"):
        place.save(key, bytes(3000))
        use_at(place, key, second)
    place.load("a")  # b is now the one that waits longest
    place.save("d", bytes(3000))
    assert [key for key in "abcd" if place.load(key) is not None] == ["a", "c", "d"]
    assert place.contents().bytes <= 10_000


def test_what_is_larger_than_the_bound_is_not_stored(place):
    place.save("small", 1)
    place.save("large", bytes(10_001))
    assert place.load("large") is None
    assert place.load("small") == 1


def test_files_that_a_killed_process_left_go_after_a_while(place):
    place.save("a", 1)
    old, young = place.folder / "x.part", place.folder / "y.part"
    for path in (old, young):
        path.write_bytes(only_file(place).read_bytes()[:30] if path == old else old.read_bytes())
    os.utime(old, (0, 0))
    place.save("b", 2)
    assert not old.exists()
    assert young.exists()
    assert place.clear().entries == 2
    assert not list(place.folder.iterdir())


def test_a_file_of_others_stays(place):
    """Whatever its name is: what is the store's says so itself."""
    place.save("a", 1)
    files = {place.folder / name: name.encode() for name in ("my.entry", "notes.part", "plan.txt", "empty.part")}
    files |= {place.folder / "empty.part": b"", place.folder / f"{'0' * 64}.entry": b"tilegen"}
    for path, data in files.items():
        path.write_bytes(data)
        os.utime(path, (0, 0))
    Store(place.folder, 2000).save("b", bytes(1900))  # makes room
    assert place.contents().entries == 1
    assert place.clear().entries == 1
    assert {path: path.read_bytes() for path in place.folder.iterdir()} == files


def test_a_bound_of_zero_turns_it_off(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path / "here"))
    off = store()
    off.save("a", 1)
    assert off.load("a") is None
    assert not (tmp_path / "here").exists()
    monkeypatch.setenv("TILEGEN_CACHE_BYTES", "5000")
    assert (store().folder, store().bound) == (tmp_path / "here", 5000)
    monkeypatch.setenv("TILEGEN_CACHE_BYTES", "1 GB")
    with pytest.raises(UsageError, match="TILEGEN_CACHE_BYTES is '1 GB', and a number of bytes is wanted"):
        store()


def test_without_its_package_it_is_off(monkeypatch):
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.delenv("TILEGEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("TILEGEN_CACHE_BYTES", "5001")
    off = store()
    off.save("a", 1)
    assert off.load("a") is None
    assert off.clear().entries == 0
    assert off.reason_not_used().startswith("the package platformdirs, which knows the folder, is not installed")


def test_its_folder_is_the_users_own(place):
    place.save("a", 1)
    assert place.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.name != "posix", reason="modes of folders are POSIX's")
def test_a_folder_that_others_can_write_to_is_not_used(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    place = Store(shared, 10_000)
    place.save("a", 1)
    assert place.load("a") is None
    assert place.reason_not_used() == f"others than the user can write to {shared}"


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    place = Store(tmp_path / "file" / "folder", 10_000)
    place.save("a", 1)
    assert place.load("a") is None
    assert "cannot be made" in place.reason_not_used()


WORKER = """
import random, sys
from pathlib import Path
from tilegen.backends.system.store import Store
place, choose = Store(Path(sys.argv[1]), 40_000), random.Random(int(sys.argv[2]))
for turn in range(300):
    key = choose.randrange(30)
    if choose.random() < 0.02:
        place.clear()
    value = place.load(str(key))
    assert value in (None, [key] * 1000), "another value"
    place.save(str(key), [key] * 1000)
"""


def test_several_processes_write_at_once(tmp_path):
    command = [sys.executable, "-c", WORKER, str(tmp_path / "tilegen")]
    running = [subprocess.Popen([*command, str(n)], stderr=subprocess.PIPE, text=True) for n in range(3)]
    assert [process.communicate()[1] for process in running] == ["", "", ""]
    place = Store(tmp_path / "tilegen", 40_000)
    place.save("the last", 1)
    assert place.contents().bytes <= 40_000
    assert not list(place.folder.glob("*.part"))
