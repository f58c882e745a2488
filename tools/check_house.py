"""House rules, each checked by machine: `python tools/check_house.py [root]`.

Prints one line for each violation, `path:line: what is wrong`, and exits 1 when there is any.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

HARD_LIMIT = 400
UNSAFE_MODULES = frozenset({"pickle", "marshal", "shelve", "dill", "cloudpickle"})
UNSAFE_CALLS = frozenset({"eval", "exec"})
# A handler under test may have to block its thread; the line then says why.
SLEEP_WAIVER = re.compile(r"#\s*blocks on purpose: \S")

# Written so that no pattern matches this file.
MACHINE_PATH = re.compile(r"(?<![\w.~*-])/(?:work|root)(?![\w-])|/(?:home|Users)/[\w.-]+")
REGISTRY = re.compile(
    r"\b(?:pypi\.(?:org|io)|pythonhosted\.(?:org)|npmjs\.(?:org|com)|artifactor(?:y)\b|(?:extra-)?index-(?:url)|find-(?:links))"
)


class Violation(NamedTuple):
    """One broken rule, at one place."""

    path: PurePosixPath
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def tracked_files(root: Path) -> list[PurePosixPath]:
    """Every file that git has or would take, relative to the root."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = sorted(set(listed.split("\0")) - {""})
    return [PurePosixPath(name) for name in names if (root / name).is_file()]


def check_text(path: PurePosixPath, text: str) -> Iterator[Violation]:
    """The repository says nothing of the machine that it was made on."""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := MACHINE_PATH.search(line):
            yield Violation(
                path, number, f"machine path {found[0]!r}: use a relative path or a temporary folder"
            )
        if found := REGISTRY.search(line):
            yield Violation(
                path, number, f"registry {found[0]!r}: leave the choice to the reader's own settings"
            )


def check_size(path: PurePosixPath, text: str) -> Iterator[Violation]:
    """A file stays short enough to be read whole."""
    count = len(text.splitlines())
    if count > HARD_LIMIT:
        yield Violation(path, count, f"{count} lines, the limit is {HARD_LIMIT}: split it by noun")


def check_safe(path: PurePosixPath, tree: ast.Module) -> Iterator[Violation]:
    """Nothing that is stored or received can become code."""
    for node in ast.walk(tree):
        for name in _modules_named(node):
            if name.partition(".")[0] in UNSAFE_MODULES:
                yield Violation(path, _line(node), f"{name} turns stored bytes into code: use msgspec")
        if isinstance(node, ast.Call) and (called := _builtin_called(node)) in UNSAFE_CALLS:
            yield Violation(path, node.lineno, f"{called}() turns text into code")


def check_sleep(path: PurePosixPath, tree: ast.Module, text: str) -> Iterator[Violation]:
    """Tests wait for what happens, never for time to pass."""
    lines = text.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and "time.sleep" in {
            f"{node.module}.{a.name}" for a in node.names
        }:
            yield Violation(path, node.lineno, "import time, so that a call of time.sleep can be seen")
        if _is_time_sleep(node) and not SLEEP_WAIVER.search(lines[_line(node) - 1]):
            yield Violation(
                path,
                _line(node),
                "time.sleep in a test: wait for a notice or an event, or move the manual clock "
                "(a handler that must block says `# blocks on purpose: why`)",
            )


def check_public(path: PurePosixPath, tree: ast.Module) -> Iterator[Violation]:
    """A public package that gives names says which."""
    bound = [node for node in tree.body if not _is_docstring(node)]
    if bound and not any("__all__" in _targets(node) for node in bound):
        yield Violation(path, 1, "a public package without __all__: list the names that it gives")


def check(root: Path) -> list[Violation]:
    """Every violation in the tree below the root."""
    found: list[Violation] = []
    for path in tracked_files(root):
        try:
            text = (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += check_text(path, text)
        if path.suffix == ".py":
            found += _check_python(path, text)
    return found


def _check_python(path: PurePosixPath, text: str) -> Iterator[Violation]:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield Violation(path, error.lineno or 1, f"does not parse: {error.msg}")
        return
    if path.parts[0] == "src":
        yield from check_size(path, text)
        yield from check_safe(path, tree)
        if path.name == "__init__.py" and not any(part.startswith("_") for part in path.parent.parts):
            yield from check_public(path, tree)
    if path.parts[0] == "tests":
        yield from check_sleep(path, tree, text)


def _modules_named(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return [name]
        case _:
            return []


def _builtin_called(call: ast.Call) -> str | None:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="builtins"), attr=name):
            return name
        case _:
            return None


def _is_time_sleep(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "time.sleep"


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _targets(node: ast.stmt) -> set[str]:
    match node:
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case _:
            return set()


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 1))


def main(arguments: list[str]) -> int:
    """Check the tree that is named, or the one that this file is in."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    found = check(root)
    for violation in found:
        print(violation)
    if not found:
        print("House rules: kept.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
