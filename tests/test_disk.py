import errno
import os
import socket
import stat
import threading

import pytest

from toolnexus_nb import disk
from toolnexus_nb.soul import CAP_BYTES, compose_soul

LIMIT_BYTES = 1_000


def file_of(folder, content, name="file"):
    path = folder / name
    path.write_bytes(content)
    return str(path)


def names_in(folder):
    return sorted(os.listdir(folder))


# --- read_capped -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, LIMIT_BYTES - 1, LIMIT_BYTES])
def test_a_file_within_the_limit_is_read_whole(tmp_path, size):
    assert disk.read_capped(file_of(tmp_path, b"a" * size), LIMIT_BYTES) == (b"a" * size, size, None)


def test_of_a_longer_file_the_head_is_read_and_the_size_told(tmp_path):
    assert disk.read_capped(file_of(tmp_path, b"a" * 5_000), LIMIT_BYTES) == (b"a" * LIMIT_BYTES, 5_000, None)


def test_a_file_that_says_size_0_is_read_to_its_end():
    data, size, target = disk.read_capped("/proc/cpuinfo", 10_000_000)
    assert (len(data) > 0, size, target) == (True, len(data), None)


def test_a_file_that_says_size_0_is_read_no_further_than_the_limit():
    assert len(disk.read_capped("/proc/cpuinfo", 10)[0]) == 10


def test_a_link_is_followed_and_its_target_told(tmp_path):
    target = file_of(tmp_path, b"text", "target")
    (tmp_path / "near").symlink_to("target")
    (tmp_path / "far").symlink_to("near")
    assert disk.read_capped(str(tmp_path / "far"), LIMIT_BYTES) == (b"text", 4, target)


def test_the_descriptor_is_closed(tmp_path):
    path = file_of(tmp_path, b"text")
    before = names_in("/proc/self/fd")
    disk.read_capped(path, LIMIT_BYTES)
    assert names_in("/proc/self/fd") == before


def test_a_missing_file_is_the_system_s_own_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        disk.read_capped(str(tmp_path / "gone"), LIMIT_BYTES)


def bind_socket(path):
    # The path of a Unix socket has at most 107 bytes; a descriptor's name is short.
    folder = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkdir, "is a directory, not a file"),
        (os.mkfifo, "is a FIFO, not a file"),
        (bind_socket, "is a socket, not a file"),
        (lambda path: path.symlink_to("/dev/zero"), "is a character device, not a file"),
    ],
    ids=["directory", "FIFO", "socket", "device"],
)
def test_what_is_no_regular_file_is_refused(tmp_path, make, message):
    make(tmp_path / "it")
    for read in (lambda path: disk.read_capped(path, LIMIT_BYTES), disk.read_whole):
        with pytest.raises(disk.NotRegular, match=f"^{message}$"):
            read(str(tmp_path / "it"))


def test_a_fifo_is_never_opened(tmp_path):
    fifo = tmp_path / "SOUL.md"
    os.mkfifo(fifo)
    # A writer waits in open() until a reader opens the other end, and no longer.
    writer = threading.Thread(target=lambda: os.close(os.open(fifo, os.O_WRONLY)), daemon=True)
    writer.start()
    assert compose_soul(tmp_path).section("SOUL.md").status == "not_regular"
    writer.join(0.1)
    assert writer.is_alive()
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    writer.join(5)
    os.close(reader)
    assert not writer.is_alive()


def change_while_composing(tmp_path, change, rounds=300):
    """Compose while another thread calls `change` again and again; return what was composed."""
    done = threading.Event()

    def keep_changing():
        while not done.is_set():
            change()

    thread = threading.Thread(target=keep_changing)
    thread.start()
    try:
        return [compose_soul(tmp_path).section("SOUL.md") for _ in range(rounds)]
    finally:
        done.set()
        thread.join()


def test_a_file_that_grows_while_it_is_read_is_read_as_far_as_it_was(tmp_path):
    with open(tmp_path / "SOUL.md", "ab", buffering=0) as file:
        sections = change_while_composing(tmp_path, lambda: file.write(b"a" * 50))
    assert {section.status for section in sections} == {"found"}
    assert all(section.size_bytes == len(section.text) for section in sections if section.size_bytes <= CAP_BYTES)
    assert [section.size_bytes for section in sections] == sorted(section.size_bytes for section in sections)


def test_a_file_that_shrinks_while_it_is_read_is_not_called_truncated(tmp_path):
    path = tmp_path / "SOUL.md"

    def change():
        os.truncate(path, CAP_BYTES + 10)
        os.truncate(path, 10)

    path.write_bytes(b"a" * 10)
    sections = change_while_composing(tmp_path, change)
    assert {section.status for section in sections} == {"found"}
    assert all((section.truncation is None) is (section.size_bytes == section.kept_bytes) for section in sections)
    assert all(section.kept_bytes == CAP_BYTES for section in sections if section.truncation)


def test_a_file_that_comes_and_goes_is_found_or_absent(tmp_path):
    path = tmp_path / "SOUL.md"

    def change():
        path.write_bytes(b"a")
        path.unlink()

    assert {section.status for section in change_while_composing(tmp_path, change)} <= {"found", "absent"}


# --- read_whole --------------------------------------------------------------------------


def test_every_byte_of_a_file_is_returned(tmp_path):
    assert disk.read_whole(file_of(tmp_path, b"\xef\xbb\xbf\r\n\xff\0" * 50_000)) == b"\xef\xbb\xbf\r\n\xff\0" * 50_000


# --- write_atomic ------------------------------------------------------------------------


def test_a_new_file_gets_the_mode_any_program_would_give_it(tmp_path):
    before = os.umask(0o027)
    try:
        disk.write_atomic(tmp_path / "new", b"text")
    finally:
        mask = os.umask(before)
    assert ((tmp_path / "new").read_bytes(), stat.S_IMODE((tmp_path / "new").stat().st_mode)) == (b"text", 0o640)
    assert (mask, names_in(tmp_path)) == (0o027, ["new"])


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o444])
def test_the_mode_of_a_file_is_kept(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    disk.write_atomic(path, b"new")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode), names_in(tmp_path)) == (b"new", mode, ["file"])


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path):
    (tmp_path / "vault").mkdir()
    file_of(tmp_path / "vault", b"old", "MEMORY.md")
    link = tmp_path / "MEMORY.md"
    link.symlink_to("vault/MEMORY.md")
    disk.write_atomic(link, b"new")
    assert (os.readlink(link), link.read_bytes()) == ("vault/MEMORY.md", b"new")
    assert (names_in(tmp_path), names_in(tmp_path / "vault")) == (["MEMORY.md", "vault"], ["MEMORY.md"])


def test_a_link_to_nothing_yet_is_written_where_it_points(tmp_path):
    (tmp_path / "link").symlink_to("target")
    disk.write_atomic(tmp_path / "link", b"new")
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "target").read_bytes()) == (True, b"new")


def test_who_has_the_old_file_open_still_reads_the_old_bytes(tmp_path):
    path = file_of(tmp_path, b"old")
    with open(path, "rb") as reader:
        disk.write_atomic(path, b"new")
        assert reader.read() == b"old"


def test_a_failed_replace_leaves_no_temporary_file(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        disk.write_atomic(tmp_path / "taken", b"text")
    assert names_in(tmp_path) == ["taken"]


def test_a_missing_folder_is_an_error_and_is_not_made(tmp_path):
    with pytest.raises(FileNotFoundError):
        disk.write_atomic(tmp_path / "gone" / "file", b"text")
    assert names_in(tmp_path) == []


def test_the_bytes_are_on_disk_before_the_rename_and_the_rename_after(tmp_path, monkeypatch):
    path = file_of(tmp_path, b"old")
    steps = []
    sync, replace = os.fsync, os.replace

    def watched_sync(descriptor):
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append("folder synced" if is_folder else f"{os.fstat(descriptor).st_size} bytes synced")
        sync(descriptor)

    def watched_replace(source, target):
        steps.append("replaced")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(os, "replace", watched_replace)
    disk.write_atomic(path, b"text")
    assert steps == ["4 bytes synced", "replaced", "folder synced"]


def test_a_full_disk_leaves_the_old_file_as_it_was(tmp_path, monkeypatch):
    path = file_of(tmp_path, b"old")

    def no_space(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left on device"):
        disk.write_atomic(path, b"new")
    assert (disk.read_whole(path), names_in(tmp_path)) == (b"old", ["file"])


# --- list_folder -------------------------------------------------------------------------


def test_a_folder_is_listed_by_name_and_links_are_followed(tmp_path):
    (tmp_path / "b").mkdir()
    file_of(tmp_path, b"", "a")
    (tmp_path / "c").symlink_to("b")
    (tmp_path / "d").symlink_to("gone")
    (tmp_path / "e").symlink_to("e")
    os.mkfifo(tmp_path / "f")
    assert disk.list_folder(str(tmp_path)) == (
        disk.Entry("a", True, False),
        disk.Entry("b", False, True),
        disk.Entry("c", False, True),
        disk.Entry("d", False, False),
        disk.Entry("e", False, False),
        disk.Entry("f", False, False),
    )


@pytest.mark.parametrize(("most", "listed"), [(0, 0), (3, 3), (5, 5), (6, 5)])
def test_no_more_entries_are_listed_than_asked_for(tmp_path, most, listed):
    for name in "abcde":
        file_of(tmp_path, b"", name)
    assert len(disk.list_folder(str(tmp_path), most)) == listed


def test_what_cannot_be_listed_has_no_entries(tmp_path):
    path = file_of(tmp_path, b"")
    assert [disk.list_folder(place) for place in (path, str(tmp_path / "gone"), "a\0b")] == [(), (), ()]
