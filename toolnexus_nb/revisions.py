"""What a git repository remembers of a persona directory. Bytes and commits out, nothing written.

Border: the `git` program, asked here and nowhere else. A repository may come from anybody, so
nothing that it configures is run: no hook, filter, text conversion, signature check, file
system monitor, pager or transport.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Final, NamedTuple

from .disk import Capped, NotRegular
from .errors import RevisionError

#: A local answer takes milliseconds; a repository on a dead network drive must not hang a cell.
TIMEOUT_SECONDS: Final = 30.0
#: The most commits that `log` looks at.
MOST_COMMITS: Final = 200

_SAFE: Final = (
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    f"core.hooksPath={os.devnull}",
    f"core.attributesFile={os.devnull}",
    "core.alternateRefsCommand=",
    "log.showSignature=false",
    "protocol.allow=never",
    "gc.auto=0",
)
#: Variables of git's that say where configuration lies; all others would lead to another repository.
_KEPT: Final = ("GIT_CONFIG", "GIT_CEILING_DIRECTORIES", "GIT_EXEC_PATH")
_POINTER: Final = b"version https://git-lfs.github.com/spec/"
_LONGEST_POINTER: Final = 1_024
_CHUNK_BYTES: Final = 65_536


class Revision(NamedTuple):
    """One commit. `date` is ISO 8601 with its zone; `parent` is "" for a first commit."""

    commit: str
    parent: str
    date: str
    subject: str


class Place(NamedTuple):
    """A directory as its repository knows it: `top` is the root on disk, `prefix` the path below it, "" or "a/b/"."""

    top: str
    prefix: str


def place(directory: str | os.PathLike[str]) -> Place:
    """Return where the repository of a directory is. The directory itself may be gone from the disk.

    Raises RevisionError, in one line, where there is no repository or no git program.
    """
    path = os.path.realpath(directory)
    shown = os.path.basename(os.path.abspath(directory)) or os.fsdecode(directory)
    there = path
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    answer = _git(there, "rev-parse", "--is-inside-work-tree", "--show-prefix", shown=shown)
    inside, _, prefix = answer.removesuffix("\n").partition("\n")
    if inside != "true":
        raise RevisionError(f"{shown}: a bare repository, or a folder of git's own, has no files to look at: use a clone")
    top = _git(there, "rev-parse", "--show-toplevel", shown=shown).removesuffix("\n")
    rest = os.path.relpath(path, there)
    return Place(top, prefix if rest == "." else prefix + rest.replace(os.sep, "/") + "/")


def resolve(directory: str | os.PathLike[str], revision: str) -> Revision:
    """Return the commit that a name of git's means (`HEAD~3`, `v1.2`, `main@{yesterday}`).

    Raises RevisionError for a name that means none.
    """
    where = place(directory)
    name = revision.strip()
    if not name or "\n" in name or not (commit := _commit(where, name)):
        raise RevisionError(f"git:{_one_line(revision)}: no such revision{_shallow(where)}: git log shows those there are")
    return next(_commits(where, "--no-walk", commit))


def read(directory: str | os.PathLike[str], commit: str, names: Sequence[str], limit_bytes: int) -> dict[str, Capped | OSError]:
    """Return the head of each named file as it was at a commit, or why there is none.

    The values are those `disk.read_capped` returns or raises: at most `limit_bytes`, the size of
    the whole in bytes, and no target, since links are followed inside the repository only.
    """
    where = place(directory)
    if "\n" in where.prefix:
        raise RevisionError("the path of the persona holds a line break, which git cannot be asked for: rename the folder")
    with _batch(where, [f"{commit}:{where.prefix}{name}" for name in names]) as answers:
        return {name: _answer(answers, limit_bytes) for name in names}


def log(directory: str | os.PathLike[str], names: Sequence[str], start: str = "HEAD", most: int = MOST_COMMITS) -> list[Revision]:
    """Return the commits, newest first, that touched one of the named files; at most `most`.

    A commit that touched only what a link leads to is not among them.
    """
    where = place(directory)
    if not (commit := _commit(where, start)):
        raise RevisionError(f"git:{_one_line(start)}: no such revision: the repository may have no commit yet")
    return list(_commits(where, f"--max-count={most}", commit, "--", *(f"{where.prefix}{name}" for name in names)))


# --- what git says ----------------------------------------------------------------------------


def _commit(where: Place, name: str) -> str:
    """Return the full name of a commit, "" where there is none."""
    try:
        asked = _git(where.top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", shown=name)
    except RevisionError:
        return ""
    return asked.strip()


def _commits(where: Place, *arguments: str) -> Iterator[Revision]:
    """Yield what `git log` lists."""
    told = _git(where.top, "log", "-z", "--no-show-signature", "--no-notes", "--format=%H%n%P%n%cI%n%s", *arguments, shown=where.prefix)
    for record in filter(None, told.split("\0")):
        commit, parents, date, subject = record.split("\n", 3)
        yield Revision(commit, parents.partition(" ")[0], date, subject)


def _shallow(where: Place) -> str:
    shallow = _git(where.top, "rev-parse", "--is-shallow-repository", shown="").strip() == "true"
    return " in this clone, which is shallow" if shallow else ""


def _answer(answers: IO[bytes], limit_bytes: int) -> Capped | OSError:
    """Read one answer of `cat-file --batch --follow-symlinks`, to its end."""
    words = answers.readline().rstrip(b"\n").rsplit(b" ", 2)
    if len(words) == 3 and words[1] in (b"blob", b"tree", b"commit", b"tag"):
        size = int(words[2])
        data = _taken(answers, size, limit_bytes)
        if words[1] != b"blob":
            return NotRegular("is a directory, not a file")
        if size <= _LONGEST_POINTER and data.startswith(_POINTER):
            return OSError(0, "is a pointer of Git LFS: the file itself is not in the repository")
        return data, size, None
    # "symlink SIZE", "dangling SIZE", "loop SIZE", "notdir SIZE": the rest is a path.
    if len(words) == 2 and words[0] in (b"symlink", b"dangling", b"loop", b"notdir"):
        _taken(answers, int(words[1]), 0)
        if words[0] == b"symlink":
            return OSError(0, "is a link that leaves the repository")
        if words[0] == b"loop":
            return OSError(0, "is a link that leads back to itself")
    return FileNotFoundError(2, "no such file")


def _taken(answers: IO[bytes], size: int, limit_bytes: int) -> bytes:
    """Read an answer of `size` bytes and the newline behind it; keep at most `limit_bytes`."""
    data = answers.read(min(size, limit_bytes))
    left = size - len(data) + 1
    while left > 0 and (more := answers.read(min(left, _CHUNK_BYTES))):
        left -= len(more)
    return data


# --- the program ------------------------------------------------------------------------------


def _git(folder: str, *arguments: str, shown: str) -> str:
    """Run git to its end and return what it printed; RevisionError in one line when it fails."""
    try:
        done = subprocess.run(  # noqa: S603  a list, never a shell
            _command(folder, arguments),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=_environment(os.environ),
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise RevisionError("revisions need the program git, which is not installed: install it") from None
    except subprocess.TimeoutExpired:
        raise RevisionError(f"{shown}: git gave no answer in {TIMEOUT_SECONDS:.0f} s: try git log there") from None
    if done.returncode:
        raise RevisionError(_refusal(done.stderr.decode(errors="replace"), shown))
    return done.stdout.decode(errors="surrogateescape")


@contextmanager
def _batch(where: Place, objects: Sequence[str]) -> Iterator[IO[bytes]]:
    """Ask for objects and give the stream of answers; what is not read is not waited for."""
    process = subprocess.Popen(  # noqa: S603  a list, never a shell
        _command(where.top, ("cat-file", "--batch", "--follow-symlinks")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(os.environ),
    )
    assert process.stdin and process.stdout
    with process:
        try:
            # Seven lines fit into the pipe, so nobody waits for anybody.
            process.stdin.write("".join(f"{name}\n" for name in objects).encode(errors="surrogateescape"))
            process.stdin.close()
            yield process.stdout
        finally:
            process.kill()


def _command(folder: str, arguments: Sequence[str]) -> list[str]:
    settings = [word for setting in _SAFE for word in ("-c", setting)]
    return ["git", "-C", folder, "--no-pager", "--no-replace-objects", "--literal-pathspecs", *settings, *arguments]


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for git: no other repository, no prompt, no lock, no fetch, words in English."""
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_") or name.startswith(_KEPT)}
    return {
        **kept,
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


def _refusal(said: str, shown: str) -> str:
    """Put git's refusal into one line of ours, which names no path of this machine."""
    if "dubious ownership" in said:
        return f"{shown}: git does not read a repository of another owner: allow it with git config --global --add safe.directory"
    if "not a git repository" in said or "cannot change to" in said:
        return f"{shown}: not in a git repository: only what was committed can be looked at"
    if "work tree" in said:
        return f"{shown}: a bare repository has no files to look at: use a clone"
    return f"{shown}: git cannot read its repository: try git fsck there"


def _one_line(words: str) -> str:
    return " ".join(words.split())[:80]
