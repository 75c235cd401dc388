"""The names around a persona: almost one of the seven, one of the seven but elsewhere, or never read.

Border: `disk` lists folders; a few stat calls look at single names. Nothing is opened, nothing raises.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from .. import disk
from ..soul import BOOTSTRAP_ORDER
from .marks import Severity, visible

#: Sub-directories that are looked into.
_FOLDERS: Final = 200
_PATH_CHARACTERS: Final = 200
_BY_FOLDED: Final = {name.casefold(): name for name in BOOTSTRAP_ORDER}
#: Letters of other scripts that look like Latin ones, folded; NFKC knows only the compatible ones.
# Cyrillic, then Greek: folded letters, or those whose capitals look alike. NFKC knows only compatible ones.
_LOOKALIKES: Final = str.maketrans("аеорсухѕіјԁһтмкнвгαεοιμτηκνρυζ", "aeopcyxsijdhtmkhbraeoimthknpyz")
_BACKUP: Final = re.compile(
    r"\.?#?(?P<name>.+?)(?:~|#|\.(?:bak|backup|old|orig|save|sw[op]|tmp)\d*)"
    r"|(?P<stem>.+?)(?: ?- ?copy| copy| ?\(copy\)| ?\(\d+\))(?: \d+)?(?P<ending>\.md)"
)
_ENDING: Final = re.compile(r"(?:\.(?:md|markdown|mdown|mkd|mdx|mdc|txt|text|rst))+$")
#: Other layouts' files that people expect to be read.
_EXPECTED: Final = ("bootstrap.md", "boot.md", "claude.md", "gemini.md", "dreams.md")
#: Written for the people who find the directory; nobody expects them in a prompt.
_FOR_PEOPLE: Final = re.compile(r"(?:readme|licen[cs]e|changelog|contributing|code_of_conduct|security|notice|history|authors)\b.*")


@dataclass(frozen=True, slots=True)
class NearName:
    """A file whose name is almost `proper`.

    `mends` is True when a rename would; `harmless` when it is a copy of a file that is read.
    """

    name: str
    proper: str
    message: str
    mends: bool = False
    harmless: bool = False


# --- almost one of the seven -------------------------------------------------------------------


def near_names(directory: str) -> Iterator[NearName]:
    """Yield the files that are not read for a slip in the name, in the order of the proper names."""
    entries = [entry.name for entry in disk.list_folder(directory) if entry.is_file and entry.name not in BOOTSTRAP_ORDER]
    near = [(proper, backup, name) for name in entries for proper, backup in [_proper(name)] if proper]
    # The likeliest first: right but for its case, then misspelt, then a backup.
    near.sort(key=lambda each: (BOOTSTRAP_ORDER.index(each[0]), each[1], each[2].strip().casefold() not in _BY_FOLDED, each[2]))
    claimed: dict[str, str] = {}
    for proper, backup, name in near:
        if not os.path.lexists(os.path.join(directory, proper)):
            yield _misnamed(name, proper, backup, claimed.setdefault(proper, name))
        elif not _same_file(directory, name, proper):
            fact = f"{_shown(name)} is not read, {proper} beside it is"
            cure = "an editor's copy, perhaps" if backup else "move what is missing there, and delete the other"
            yield NearName(name, proper, f"{fact}: {cure}", harmless=backup)


def _misnamed(name: str, proper: str, backup: bool, first: str) -> NearName:
    fact = f"{_shown(name)} is not read"
    if first != name:
        rival = f"{_shown(first)} is as near to it; keep one of the two"
        return NearName(name, proper, f"{fact}: the name must be {proper}{_why(name)}, and {rival}")
    why = f"it is a copy of {proper}, which is missing; bring it back" if backup else f"the name must be {proper}{_why(name)}; rename it"
    return NearName(name, proper, f"{fact}: {why}: mv {quoted(name)} {proper}", mends=True)


def _shown(name: str) -> str:
    """Return the name for a sentence; in quotation marks where its white space would be lost."""
    return f"“{visible(name)}”" if name != name.strip() else visible(name)


def _why(name: str) -> str:
    """Name the character that cannot be told from the right one by eye."""
    odd = next((c for c in name if ord(c) > 0x7F or not c.isprintable()), None)
    if odd is not None and not 0xDC80 <= ord(odd) <= 0xDCFF:
        return f", and this one holds U+{ord(odd):04X} ({unicodedata.name(odd, 'control character').lower()})"
    return ", without white space around it" if name != name.strip() else ""


def _proper(name: str) -> tuple[str, bool]:
    """Return the one of the seven that the name is meant to be, and whether it looks like a backup of it; "" for none."""
    if len(name) > 60 or name.startswith("._"):
        # macOS keeps a file's attributes in `._name`: nobody wrote that one.
        return "", False
    folded = _folded(name)
    if plain := _spelled("".join(folded.split())):
        # A bare `memory` or `tools` may be anything; a bare SOUL is meant.
        return (plain, False) if "." in name or name.isupper() else ("", False)
    match = _BACKUP.fullmatch(folded)
    return (_BY_FOLDED.get(match["name"] or f"{match['stem']}{match['ending']}", ""), True) if match else ("", False)


def _folded(name: str) -> str:
    """Return the name as an eye reads it: one case, Latin letters, nothing invisible."""
    seen = (c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) not in ("Cf", "Cc", "Mn"))
    return "".join(seen).casefold().translate(_LOOKALIKES)


def _spelled(folded: str) -> str:
    stem = _ENDING.sub("", folded)
    if f"{stem}.md" in _BY_FOLDED:
        return _BY_FOLDED[f"{stem}.md"]
    if not folded.endswith(".md") or any(c.isdigit() for c in folded):
        return ""
    # A letter more, less or changed: AGENT.md, HEARTBEET.md.
    close = difflib.get_close_matches(folded, _BY_FOLDED, n=1, cutoff=0.87)
    return _BY_FOLDED[close[0]] if close else ""


def _same_file(directory: str, one: str, other: str) -> bool:
    """Tell whether two names lead to one file: on many a Mac, soul.md is SOUL.md."""
    try:
        return os.path.samefile(os.path.join(directory, one), os.path.join(directory, other))
    except (OSError, ValueError):
        return False


def quoted(name: str) -> str:
    r"""Return the name for a shell's command line, on one line: $'\x1b' where it must be escaped."""
    shown = visible(name, most=_PATH_CHARACTERS * 4)
    dash = "-- " if name.startswith("-") else ""
    if shown == name:
        return dash + shlex.quote(name)
    escaped = visible(name.replace("\\", "\\\\").replace("'", "\\'"), most=_PATH_CHARACTERS * 4)
    return f"{dash}$'{escaped}'"


# --- one of the seven, but elsewhere -----------------------------------------------------------


def elsewhere(directory: str, lacking: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each direct sub-directory, and the parent, that holds what is lacking here."""
    held = [(f"./{visible(name)}", has) for name, has in _sub_holdings(directory, lacking)]
    if above := _holdings(_parent(directory), lacking):
        held.append(("the parent directory", above))
    for where, has in held[:20]:
        if len(has) == 1:
            yield f"{has[0]} is in {where}, where it is not read: move it here, or show that directory"
        else:
            fact = f"{len(has)} of the seven are in {where} ({', '.join(has)}), where they are not read"
            yield f"{fact}: move them here, or show that directory"


def _sub_holdings(directory: str, wanted: Sequence[str]) -> list[tuple[str, list[str]]]:
    folders = [entry.name for entry in disk.list_folder(directory) if entry.is_folder and entry.name != ".git"][:_FOLDERS]
    held = [(name, _holdings(os.path.join(directory, name), wanted)) for name in folders]
    return sorted(((name, has) for name, has in held if has), key=lambda each: -len(each[1]))


def _holdings(directory: str, wanted: Sequence[str]) -> list[str]:
    return [name for name in wanted if directory and _is_file(os.path.join(directory, name))]


def _is_file(path: str) -> bool:
    try:
        return os.path.isfile(path)
    except ValueError:
        return False


def _parent(directory: str) -> str:
    """Return the directory above; "" where there is none."""
    try:
        whole = os.path.realpath(directory)
    except (OSError, ValueError):
        return ""
    above = os.path.dirname(whole)
    return above if above != whole else ""


def link_facts(directory: str, name: str, outside: str) -> Iterator[tuple[str, Severity]]:
    """Yield what there is to say of a name that is a link: it leaves the directory, or leads nowhere."""
    if outside:
        yield f"the file is a link that leaves the directory, to {_tail(outside)}: copy it here if the persona is to travel", "note"
        return
    path = os.path.join(directory, name)
    try:
        if os.path.islink(path) and not os.path.exists(path):
            yield f"the name is a link that leads nowhere, to {_tail(os.readlink(path))}: mend the link, or delete it", "warning"
    except (OSError, ValueError):
        return


def _tail(path: str) -> str:
    shown = visible(path, most=4_096)
    return shown if len(shown) <= 60 else "…" + shown[-59:]


# --- never read --------------------------------------------------------------------------------


def not_read(directory: str) -> Iterator[str]:
    """Yield one sentence for the files other layouts read, and one for the other Markdown files."""
    entries = disk.list_folder(directory)
    expected = [entry.name for entry in entries if entry.is_file and entry.name.casefold() in _EXPECTED]
    expected += [_counted(directory, entry.name) for entry in entries if entry.is_folder and entry.name in ("memory", "skills")]
    if expected:
        yield f"{', '.join(map(visible, expected))}: not read, only the seven are; move there what the model must know"
    others = [entry.name for entry in entries if entry.is_file and _is_other(entry.name) and entry.name not in expected]
    if others:
        told = ", ".join(visible(name) for name in others[:6]) + (f" and {len(others) - 6} more" if len(others) > 6 else "")
        yield f"{told}: not read, only the seven are; move there what the model must know"


def _counted(directory: str, folder: str) -> str:
    inside = disk.list_folder(os.path.join(directory, folder))
    if folder == "memory":
        count, noun = sum(entry.is_file and entry.name.endswith(".md") for entry in inside), "file"
    else:
        count, noun = sum(entry.is_folder or entry.is_file for entry in inside), "skill"
    return f"{folder}/ ({count} {noun}{'' if count == 1 else 's'})"


def _is_other(name: str) -> bool:
    plain = name.lower().endswith(".md") and name not in BOOTSTRAP_ORDER and not name.startswith(".")
    return plain and not _FOR_PEOPLE.fullmatch(name.lower()) and not _proper(name)[0]


# --- a directory that cannot be shown ----------------------------------------------------------


def help_for(directory: str) -> str:
    """Return "subject: fact: cure" for a directory that cannot be shown; "" when one of the seven is there."""
    shown = visible(directory, most=_PATH_CHARACTERS)
    try:
        if os.path.isdir(directory or "."):
            return _help_inside(directory or ".", shown or ".")
        return _help_missing(directory, shown)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or visible(str(error))
        return f"{shown}: cannot be looked at ({reason}): check the name"


def _help_missing(directory: str, shown: str) -> str:
    if "\0" in directory:
        return f"{shown}: no such directory: a path cannot hold a NUL"
    if os.path.exists(directory):
        kind = "a file" if os.path.isfile(directory) else "no directory"
        return f"{shown}: is {kind}: its directory is {visible(os.path.dirname(directory) or '.', most=_PATH_CHARACTERS)}"
    if os.path.islink(directory):
        return f"{shown}: is a link that leads nowhere: it points to {_tail(os.readlink(directory))}"
    return f"{shown}: no such directory: {_nearest(directory)}"


def _nearest(directory: str) -> str:
    home = os.path.expanduser(directory) if directory.startswith("~") else directory
    if home != directory and os.path.isdir(home):
        return f"~ is not expanded, write {visible(home, most=_PATH_CHARACTERS)}"
    above, name = os.path.split(directory.rstrip("/"))
    if not os.path.isdir(above or "."):
        return f"{visible(above, most=_PATH_CHARACTERS)} is not there either; check the path"
    siblings = {entry.name.casefold(): entry.name for entry in disk.list_folder(above or ".") if entry.is_folder}
    close = difflib.get_close_matches(name.casefold(), siblings, n=1, cutoff=0.6)
    if close:
        return f"did you mean {visible(os.path.join(above, siblings[close[0]]), most=_PATH_CHARACTERS)}?"
    return f"make it, or name a directory that holds {', '.join(BOOTSTRAP_ORDER[:2])} or another of the seven"


def _help_inside(directory: str, shown: str) -> str:
    there = [name for name in BOOTSTRAP_ORDER if os.path.lexists(os.path.join(directory, name))]
    if any(_is_file(os.path.join(directory, name)) for name in there):
        return ""
    if not os.access(directory, os.R_OK | os.X_OK):
        return f"{shown}: may not be read: chmod u+rx {quoted(directory)}"
    fact = f"none of the seven files is in {shown}"
    if there:
        return f"{fact}: {there[0]} is there, but it is no file that can be read"
    if near := [miss for miss in near_names(directory) if miss.mends]:
        told = ", ".join(f"{_shown(miss.name)} must be named {miss.proper}" for miss in near[:3]) + (" …" if len(near) > 3 else "")
        old, new = (quoted(os.path.join(directory, name)) for name in (near[0].name, near[0].proper))
        return f"{fact}: {told}: mv {old} {new}"
    held = _sub_holdings(directory, BOOTSTRAP_ORDER) or [("..", _holdings(_parent(directory), BOOTSTRAP_ORDER))]
    name, has = held[0]
    if has:
        where = visible(os.path.join(directory, name), most=_PATH_CHARACTERS)
        return f"{fact}: {len(has)} of them {'is' if len(has) == 1 else 'are'} in {where}"
    return f"{fact}: write one, {', '.join(BOOTSTRAP_ORDER[:2])} or another of the seven"
