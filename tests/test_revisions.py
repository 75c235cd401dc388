"""What git remembers of a persona: real repositories, some of them hostile."""

import os
import shutil
import subprocess

import pytest

from toolnexus_nb import revisions
from toolnexus_nb.disk import NotRegular
from toolnexus_nb.errors import RevisionError
from toolnexus_nb.rules import BOOTSTRAP_ORDER, CAP_BYTES

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

LIMIT = CAP_BYTES + 1_024


class Repository:
    """A repository under the hands of a person who commits."""

    def __init__(self, top):
        self.top = top
        top.mkdir(exist_ok=True)
        self.git("init", "-q", "-b", "main")
        for name, value in (("user.name", "nobody"), ("user.email", "nobody@example.invalid"), ("commit.gpgsign", "false")):
            self.git("config", name, value)

    def git(self, *arguments):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return subprocess.run(["git", *arguments], cwd=self.top, check=True, capture_output=True, text=True, env=clean).stdout.strip()

    def commit(self, subject, **files):
        for name, text in files.items():
            path = self.top / name.replace("__", "/").replace("_md", ".md")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repo")


def read(directory, revision="HEAD", limit=LIMIT):
    return revisions.read(directory, revisions.resolve(directory, revision).commit, BOOTSTRAP_ORDER, limit)


def test_a_file_is_read_as_it_was(repository):
    repository.commit("first", ava__SOUL_md="You are Ava.\n")
    repository.commit("second", ava__SOUL_md="You are Ava, the tutor.\n")
    ava = repository.top / "ava"
    assert read(ava)["SOUL.md"] == (b"You are Ava, the tutor.\n", 24, None)
    assert read(ava, "HEAD~1")["SOUL.md"] == (b"You are Ava.\n", 13, None)
    assert isinstance(read(ava)["USER.md"], FileNotFoundError)


def test_only_the_head_of_a_file_is_kept_and_the_next_one_is_still_read(repository):
    repository.commit("one", AGENTS_md="a" * 200_000, SOUL_md="b" * 70_000, MEMORY_md="- tea\n")
    found = read(repository.top, limit=10)
    assert found["AGENTS.md"] == (b"a" * 10, 200_000, None)
    assert found["SOUL.md"] == (b"b" * 10, 70_000, None)
    assert found["MEMORY.md"] == (b"- tea\n", 6, None)


def test_links_are_followed_inside_the_repository_and_nowhere_else(repository, tmp_path):
    (tmp_path / "outside.md").write_text("not yours")
    ava = repository.top / "ava"
    ava.mkdir()
    (repository.top / "shared.md").write_text("shared")
    for name, target in (
        ("SOUL.md", "../shared.md"),
        ("USER.md", str(tmp_path / "outside.md")),
        ("TOOLS.md", "../../outside.md"),
        ("AGENTS.md", "AGENTS.md"),
        ("MEMORY.md", "nowhere.md"),
    ):
        (ava / name).symlink_to(target)
    (ava / "IDENTITY.md").mkdir()
    (ava / "IDENTITY.md" / "x").write_text("x")
    repository.commit("links")
    found = read(ava)
    assert found["SOUL.md"] == (b"shared", 6, None)
    assert str(found["USER.md"].strerror) == str(found["TOOLS.md"].strerror) == "is a link that leaves the repository"
    assert found["AGENTS.md"].strerror == "is a link that leads back to itself"
    assert isinstance(found["MEMORY.md"], FileNotFoundError)
    assert isinstance(found["IDENTITY.md"], NotRegular)


def test_a_pointer_of_lfs_is_not_taken_for_the_file(repository):
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    repository.commit("pointer", SOUL_md=pointer)
    assert read(repository.top)["SOUL.md"].strerror == "is a pointer of Git LFS: the file itself is not in the repository"


def test_the_directory_may_be_gone_from_the_disk(repository):
    repository.commit("one", people__ava__SOUL_md="You are Ava.\n")
    repository.git("rm", "-qr", "people")
    repository.commit("gone")
    assert not (repository.top / "people").exists()
    assert read(repository.top / "people" / "ava", "HEAD~1")["SOUL.md"][0] == b"You are Ava.\n"


def test_a_directory_that_is_reached_by_a_link(repository, tmp_path):
    repository.commit("one", ava__SOUL_md="You are Ava.\n")
    (tmp_path / "link").symlink_to(repository.top / "ava")
    assert read(tmp_path / "link")["SOUL.md"][0] == b"You are Ava.\n"


def test_a_revision_says_what_it_is(repository):
    first = repository.commit("first: a\n\nmore", SOUL_md="a")
    second = repository.commit("second", SOUL_md="b")
    repository.git("tag", "-a", "v1", "-m", "tagged")
    found = revisions.resolve(repository.top, " v1 ")
    assert (found.commit, found.parent, found.subject) == (second, first, "second")
    assert revisions.resolve(repository.top, "HEAD~1")[:2] == (first, "")
    assert found.date[:2] == "20" and "T" in found.date


@pytest.mark.parametrize("name", ["HEAD~9", "--help", "-c core.pager=x", "no-such", "", "a\nb", "HEAD:SOUL.md", "HEAD^{tree}"])
def test_a_name_that_means_no_commit(repository, name):
    repository.commit("first", SOUL_md="a")
    with pytest.raises(RevisionError, match=r"^git:.*: no such revision: git log shows those there are$"):
        revisions.resolve(repository.top, name)


def test_a_shallow_clone_says_that_it_is_one(repository, tmp_path):
    repository.commit("first", SOUL_md="a")
    repository.commit("second", SOUL_md="b")
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{repository.top}", tmp_path / "clone"], check=True, capture_output=True)
    with pytest.raises(RevisionError, match="in this clone, which is shallow"):
        revisions.resolve(tmp_path / "clone", "HEAD~1")


def test_the_log_names_the_commits_that_touched_the_files(repository):
    first = repository.commit("first", ava__SOUL_md="a")
    repository.commit("another persona", eva__SOUL_md="a")
    third = repository.commit("third", ava__MEMORY_md="- tea")
    repository.commit("no file of the seven", ava__notes_md="x")
    assert [entry.commit for entry in revisions.log(repository.top / "ava", BOOTSTRAP_ORDER)] == [third, first]
    assert [entry.commit for entry in revisions.log(repository.top / "ava", BOOTSTRAP_ORDER, most=1)] == [third]
    assert [entry.commit for entry in revisions.log(repository.top / "ava", BOOTSTRAP_ORDER, "HEAD~2")] == [first]


def test_a_folder_whose_name_is_a_pattern(repository):
    first = repository.commit("first", **{"a*__SOUL_md": "a"})
    repository.commit("second", ab__SOUL_md="b")
    assert [entry.commit for entry in revisions.log(repository.top / "a*", BOOTSTRAP_ORDER)] == [first]
    assert read(repository.top / "a*")["SOUL.md"][0] == b"a"


def test_a_repository_without_a_commit(repository):
    with pytest.raises(RevisionError, match="may have no commit yet"):
        revisions.log(repository.top, BOOTSTRAP_ORDER)


def test_a_directory_outside_of_any_repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(RevisionError, match=f"^{tmp_path.name}: not in a git repository: "):
        revisions.resolve(tmp_path, "HEAD")


def test_a_bare_repository(repository, tmp_path):
    repository.commit("first", SOUL_md="a")
    subprocess.run(["git", "clone", "-q", "--bare", repository.top, tmp_path / "bare"], check=True, capture_output=True)
    for folder in (tmp_path / "bare", repository.top / ".git"):
        with pytest.raises(RevisionError, match="has no files to look at"):
            revisions.resolve(folder, "HEAD")


def test_without_git(repository, monkeypatch, tmp_path):
    repository.commit("first", SOUL_md="a")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RevisionError, match="need the program git, which is not installed: install it"):
        revisions.resolve(repository.top, "HEAD")


def test_a_damaged_repository(repository):
    repository.commit("first", SOUL_md="a")
    (repository.top / ".git" / "config").write_text("[core\n")
    with pytest.raises(RevisionError, match="git cannot read its repository: try git fsck there"):
        revisions.resolve(repository.top, "HEAD")


def test_variables_of_git_lead_nowhere_else(repository, tmp_path, monkeypatch):
    repository.commit("first", SOUL_md="ours")
    other = Repository(tmp_path / "other")
    other.commit("theirs", SOUL_md="theirs")
    monkeypatch.setenv("GIT_DIR", str(other.top / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.top))
    assert read(repository.top)["SOUL.md"][0] == b"ours"


def test_nothing_that_a_repository_configures_is_run(repository, tmp_path):
    """Every setting here makes plain `git log` or `git status` run a program of the repository's choice."""
    mark = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    script.chmod(0o755)
    repository.commit("first", SOUL_md="a", **{".gitattributes": "*.md diff=evil filter=evil\n"})
    for name in (
        "core.fsmonitor",
        "core.pager",
        "pager.log",
        "core.sshCommand",
        "core.alternateRefsCommand",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "filter.evil.smudge",
        "filter.evil.process",
        "gpg.program",
        "core.askPass",
        "credential.helper",
    ):
        repository.git("config", name, str(script))
    repository.git("config", "log.showSignature", "true")
    hooks = repository.top / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-checkout", "pre-auto-gc", "post-index-change", "reference-transaction"):
        shutil.copy(script, hooks / hook)
    repository.git("log", "-p", "--ext-diff")
    assert mark.exists(), "the settings would run nothing anyway"
    mark.unlink()
    assert read(repository.top)["SOUL.md"][0] == b"a"
    assert len(revisions.log(repository.top, BOOTSTRAP_ORDER)) == 1
    assert not mark.exists()


def test_no_refusal_names_a_path_of_the_machine():
    said = "fatal: detected dubious ownership in repository at '/home/eve/x'\nTo add an exception\n\tgit config --global --add /home/eve/x"
    words = revisions._refusal(said, "ava")
    assert words.startswith("ava: git does not read a repository of another owner") and "/home" not in words
