"""Reads the `$ ` lines of a console block: which are run, and which are only looked up."""

import re
import shlex
import tomllib
from pathlib import Path

from tests.docs.blocks import Block, PageError


def commands_of(block: Block) -> list[str]:
    """The commands that the reader types; a line that ends in a backslash goes on in the next."""
    commands: list[str] = []
    is_open = False
    for line in block.text.splitlines():
        if is_open:
            commands[-1] += "\n" + line.removeprefix("> ")
        elif line.startswith("$ "):
            commands.append(line[2:])
        else:
            continue
        is_open = line.endswith("\\")
    if not commands:
        raise PageError(f"{block.place}: no line starts with `$ `, so nothing is run")
    return commands


def script_of(block: Block, root: Path) -> str:
    """What bash runs. Set-up commands are only looked up, for they would change the machine."""
    script: list[str] = []
    for command in commands_of(block):
        words = shlex.split(command, comments=True)
        if words[:1] == ["make"]:
            _check_make(words, block, root)
        elif "pip" in words[:3] and "install" in words:
            _check_install(words[words.index("install") + 1 :], block, root)
        else:
            script.append(command)
    return "\n".join(script)


def _check_make(words: list[str], block: Block, root: Path) -> None:
    targets = re.findall(r"^([\w-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for word in words[1:]:
        if "=" not in word and word not in targets:
            raise PageError(f"{block.place}: the Makefile has no target {word!r}")


def _check_install(words: list[str], block: Block, root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project.get("optional-dependencies", {})
    requirements = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    known = {_name(requirement) for requirement in requirements} | {project["name"]}
    for word in words:
        if word.startswith("-"):
            continue
        if _name(word) not in {*known, "."}:
            raise PageError(f"{block.place}: {_name(word)!r} is neither this package nor one that it needs")
        asked = re.search(r"\[(.*)\]", word)
        for extra in asked[1].split(",") if asked else []:
            if _name(word) in {project["name"], "."} and extra.strip() not in extras:
                raise PageError(f"{block.place}: there is no extra {extra.strip()!r}")


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower()
