"""The style guide as a test: what no linter checks about this repository.

Usage: `python tools/tidy.py [ROOT]`. Prints `path:line: rule: what to do`, and exits 1 if it
printed anything.

Every check is a pure function from sources to findings, so that each has its examples in
`tests/unit/test_tidy.py`. Reads files; refuses to import the code that it reads. An exception to a
rule is an entry of one of the tables below, with its reason.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

PACKAGE = "src/headway/"
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500

TIME_WORDS = frozenset(
    "delay delays deadline deadlines duration durations elapsed interval intervals itl latencies "
    "latency linger slack timeout timeouts tpot ttft".split()
)
# A time-like word is fine once a unit follows, or a word which says that this number is no time.
UNIT_WORDS = frozenset(
    "ns us ms s seconds at bytes count exponent factor index percent quantile rank ratio rps seq "
    "tokens weight".split()
)
NUMERIC_TYPES = frozenset({"int", "float"})
# What may stand around a number in an annotation without making it something else.
NUMERIC_WRAPPERS = frozenset(
    "Annotated ClassVar Final Iterable Iterator None Optional Sequence deque frozenset list set "
    "tuple typing".split()
)
# name -> why it needs no unit
TIME_NAMES_ALLOWED: Mapping[str, str] = {}
# folder -> why names in it are not ours to choose
TIME_FOLDERS_EXEMPT: Mapping[str, str] = {
    PACKAGE + "frontends/": "field names are those of the wire protocols",
}

BANNED_CLASS_WORDS = frozenset({"Handler", "Helper", "Impl", "Info", "Manager"})
BANNED_MODULES = frozenset({"base", "common", "helpers", "utils"})

# module -> why nothing imports it
DEAD_FILES_ALLOWED: Mapping[str, str] = {
    "headway.__main__": "started by `python -m headway`",
    "headway.generate.vllm": "vLLM imports it, by the name given as --scheduler-cls",
    "headway.generate.vllm_swap": "vLLM imports it, by the name given in --kv-transfer-config",
}
# A door re-exports its own folder; these standard modules are for saying what its names are.
DOOR_MODULES_ALLOWED = frozenset({"__future__", "typing"})
NESTED_FOLDERS_ALLOWED: Mapping[str, str] = {
    PACKAGE + "frontends/dashboard/": "holds the static page",
}

COMMENTED_SUFFIXES = frozenset({".css", ".html", ".js", ".sh", ".toml", ".yaml", ".yml"})
SKIPPED_FOLDERS = frozenset({"__pycache__", "build", "dist", "htmlcov", "node_modules"})
VISIBLE_DOT_FOLDERS = frozenset({".ci", ".github"})

TODO = re.compile(r"\bTODO\b(?!\(#\d+\): )|\bFIXME\b")
# `/mnt/models` is where KServe puts a model, on every machine.
MACHINE_PATH = re.compile(
    r"(?<![\w./~$})-])/(?:home|Users|root|work|workspaces?|mnt)/(?!you/|headway/|models\b)[\w.-]+"
)
CAMEL_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*")


class Finding(NamedTuple):
    """One departure from the house style."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        """Print as compilers do, so that editors can jump there."""
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


@dataclass(frozen=True)
class Source:
    """A text file: its path from the root, with forward slashes, and what it says."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of a Python file."""
        return ast.parse(self.text, filename=self.path)

    @property
    def is_python(self) -> bool:
        """Whether it has a syntax tree."""
        return self.path.endswith(".py")

    @property
    def is_ours(self) -> bool:
        """Whether it is code which users install."""
        return self.is_python and self.path.startswith("src/")

    @property
    def is_door(self) -> bool:
        """Whether this is the `__init__.py` of a folder below the package itself."""
        return re.fullmatch(PACKAGE + r".+/__init__\.py", self.path) is not None

    @property
    def module(self) -> str:
        """The dotted name by which the file is imported."""
        return re.sub(r"^src/|(/__init__)?\.py$", "", self.path).replace("/", ".")

    @property
    def folder(self) -> str:
        """The path of its folder, with a slash at the end."""
        return self.path.rpartition("/")[0] + "/"

    def finding(self, line: int, rule: str, message: str) -> Finding:
        """A finding in this file."""
        return Finding(self.path, line, rule, message)


# --- size -----------------------------------------------------------------------------------------


def check_function_length(source: Source) -> Iterator[Finding]:
    """A function fits on a page."""
    if not source.is_ours:
        return
    for function in _functions(source.tree):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            message = f"`{function.name}` has {lines} lines, {FUNCTION_LINES_MAX} are allowed"
            yield source.finding(function.lineno, "function-length", message + ": split it")


def check_file_length(source: Source) -> Iterator[Finding]:
    """A file can be read in one sitting."""
    lines = source.text.count("\n")
    if source.is_ours and lines > FILE_LINES_MAX:
        yield source.finding(
            1, "file-length", f"{lines} lines, {FILE_LINES_MAX} are allowed: split it"
        )


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


# --- names ----------------------------------------------------------------------------------------


class Named(NamedTuple):
    """A name that is met far from its origin: argument, field, attribute or constant."""

    name: str
    line: int


def check_time_units(source: Source) -> Iterator[Finding]:
    """A number that measures time says in which unit."""
    if not source.is_ours or source.folder.startswith(tuple(TIME_FOLDERS_EXEMPT)):
        return
    for named in _numeric_names(source.tree):
        if named.name not in TIME_NAMES_ALLOWED and lacks_unit(named.name):
            message = (
                f"`{named.name}` needs its unit: `{named.name}_ns`, or `_at_ns` for an instant"
            )
            yield source.finding(named.line, "time-unit", message)


def lacks_unit(name: str) -> bool:
    """Whether a name has a time-like word which no unit follows."""
    words = name.lower().strip("_").split("_")
    times = [index for index, word in enumerate(words) if word in TIME_WORDS]
    return bool(times) and UNIT_WORDS.isdisjoint(words[times[0] :])


def _numeric_names(tree: ast.Module) -> Iterator[Named]:
    """Arguments, properties, attributes and fields; a local variable is read where it is made."""
    for function in _functions(tree):
        yield from _numbers_of_function(function)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            targets = [_numeric_target(statement) for statement in node.body]
            yield from (
                Named(name.id, name.lineno) for name in targets if isinstance(name, ast.Name)
            )
        elif isinstance(target := _numeric_target(node), ast.Attribute):
            yield Named(target.attr, target.lineno)


def _numeric_target(node: ast.AST) -> ast.expr | None:
    match node:
        case ast.AnnAssign() if _is_numeric(node.annotation):
            return node.target
        case ast.Assign(targets=[target], value=ast.Constant(value=int() | float())):
            return target
        case _:
            return None


def _numbers_of_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Named]:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    for argument in arguments:
        if argument.annotation is not None and _is_numeric(argument.annotation):
            yield Named(argument.arg, argument.lineno)
    is_property = any("property" in ast.unparse(decorator) for decorator in function.decorator_list)
    if is_property and function.returns is not None and _is_numeric(function.returns):
        yield Named(function.name, function.lineno)


def _is_numeric(annotation: ast.expr) -> bool:
    """Whether an annotation means numbers only; a type of our own carries its unit itself."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    nodes = list(ast.walk(annotation))
    words = {node.id for node in nodes if isinstance(node, ast.Name)}
    words |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return bool(words & NUMERIC_TYPES) and words <= NUMERIC_TYPES | NUMERIC_WRAPPERS


def check_banned_words(source: Source) -> Iterator[Finding]:
    """A class is named for what it is, not for being a thing that does things."""
    if not source.is_ours:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef):
            for word in BANNED_CLASS_WORDS.intersection(CAMEL_WORD.findall(node.name)):
                message = f"`{node.name}`: `{word}` says nothing; name what it knows or decides"
                yield source.finding(node.lineno, "banned-word", message)
    for word in BANNED_MODULES.intersection(source.module.split(".")):
        message = f"`{word}` is no subject: name the file after what it holds"
        yield source.finding(1, "banned-word", message)


# --- folders and doors ----------------------------------------------------------------------------


def check_door(source: Source) -> Iterator[Finding]:
    """A folder has a docstring at its door, and the door shows only what is inside."""
    if not source.is_door:
        return
    if not ast.get_docstring(source.tree):
        message = "say what the folder knows and what it must never import"
        yield source.finding(1, "folder-docstring", message)
    for imported in _imports(source):
        is_own = imported.module == source.module or imported.module.startswith(source.module + ".")
        if not is_own and imported.module not in DOOR_MODULES_ALLOWED:
            message = f"`{imported.module}` is not of this folder: a door only re-exports"
            yield source.finding(imported.line, "door", message)


def check_folders(sources: Sequence[Source]) -> Iterator[Finding]:
    """Every folder has its door, and no folder holds another."""
    paths = {source.path for source in sources}
    folders = {source.folder: source for source in sources if source.is_ours}
    for folder, source in sorted(folders.items()):
        if folder + "__init__.py" not in paths:
            yield source.finding(1, "folder-docstring", f"`{folder}` has no `__init__.py`")
        if folder.count("/") > 3 and folder not in NESTED_FOLDERS_ALLOWED:
            message = f"`{folder}` is a folder in a folder: keep it flat"
            yield source.finding(1, "folder-depth", message)


def check_past_doors(sources: Sequence[Source]) -> Iterator[Finding]:
    """Other folders are entered by their door; tests, tools and benchmarks may look inside."""
    doors = {source.module: _bound_names(source.tree) for source in sources if source.is_door}
    modules = {source.module for source in sources if source.is_ours}
    for source in sources:
        if source.is_ours or (source.is_python and source.path.startswith("examples/")):
            for imported in _imports(source):
                door = _door_passed(imported, source, doors, modules)
                if door is not None:
                    message = f"`{imported.full_name}` reaches past a door: import from `{door}`"
                    yield source.finding(imported.line, "past-door", message)


def check_dead_files(sources: Sequence[Source]) -> Iterator[Finding]:
    """A file under src/ is there because another one needs it."""
    ours = [source for source in sources if source.is_ours]
    needed: set[str] = set()
    for source in ours:
        wanted = _module_like_strings(source.tree)
        for imported in _imports(source):
            wanted |= {imported.module, imported.full_name}
        needed |= wanted - {source.module}
    for source in ours:
        is_spared = source.path.endswith("/__init__.py") or source.module in DEAD_FILES_ALLOWED
        if not is_spared and source.module not in needed:
            message = f"nothing imports `{source.module}`: use it or delete it"
            yield source.finding(1, "dead-file", message)


class Imported(NamedTuple):
    """One name brought in: `from module import name`, or `import module` with an empty name."""

    module: str
    name: str
    line: int

    @property
    def full_name(self) -> str:
        """What is brought in, with where it is from."""
        return f"{self.module}.{self.name}" if self.name else self.module


def _imports(source: Source) -> Iterator[Imported]:
    """Every absolute import; ruff refuses the relative ones."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (Imported(alias.name, "", node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            module = node.module
            yield from (Imported(module, alias.name, node.lineno) for alias in node.names)


def _door_passed(
    imported: Imported, source: Source, doors: Mapping[str, frozenset[str]], modules: set[str]
) -> str | None:
    """The door that an import from outside went past, or None."""
    for door, names in doors.items():
        if source.module == door or source.module.startswith(door + "."):
            continue
        is_inner_file = imported.module.startswith(door + ".")
        is_file_through_door = (
            imported.module == door and imported.full_name in modules and imported.name not in names
        )
        if is_inner_file or is_file_through_door:
            return door
    return None


def _bound_names(tree: ast.Module) -> frozenset[str]:
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return frozenset(alias.asname or alias.name for node in imports for alias in node.names)


def _module_like_strings(tree: ast.Module) -> set[str]:
    """Modules named in text, as for a lazy import: "headway.executors.worker:main"."""
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {
        text.partition(":")[0]
        for text in texts
        if isinstance(text, str) and text.startswith("headway.")
    }


# --- tests and pages ------------------------------------------------------------------------------


def check_test_docstrings(source: Source) -> Iterator[Finding]:
    """A test states its promise in a sentence."""
    if not (source.is_python and source.path.startswith("tests/")):
        return
    for function in _functions(source.tree):
        if function.name.startswith("test_") and not ast.get_docstring(function):
            message = f"`{function.name}` does not say what it promises: give it a docstring"
            yield source.finding(function.lineno, "test-docstring", message)


def check_page_title(source: Source) -> Iterator[Finding]:
    """A page has one title."""
    if not source.path.endswith(".md"):
        return
    titles: list[int] = []
    fence = ""
    for number, line in enumerate(source.text.splitlines(), start=1):
        marker = re.match(r"\s*(`{3,}|~{3,})", line)
        if marker and not fence:
            fence = marker[1]
        elif marker and marker[1].startswith(fence):
            fence = ""
        elif not fence and line.startswith("# "):
            titles.append(number)
    if len(titles) != 1:
        message = f"{len(titles)} lines start with `# `: a page has one title"
        yield source.finding(titles[1] if titles else 1, "page-title", message)


def check_todo(source: Source) -> Iterator[Finding]:
    """What is left to do has an issue; what must be mended is mended."""
    for number, comment in _comments(source):
        if TODO.search(comment):
            message = "write `TODO(#123): …` with the issue's number; `FIXME` never lands"
            yield source.finding(number, "todo", message)


def _comments(source: Source) -> Iterator[tuple[int, str]]:
    if source.is_python:
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    elif Path(source.path).suffix in COMMENTED_SUFFIXES or source.path.endswith("Makefile"):
        for number, line in enumerate(source.text.splitlines(), start=1):
            if comment := re.search(r"(?:#|//|/\*|<!--).*", line):
                yield number, comment[0]


def check_machine_paths(source: Source) -> Iterator[Finding]:
    """No file knows where one person's disk has what."""
    for number, line in enumerate(source.text.splitlines(), start=1):
        if found := MACHINE_PATH.search(line):
            yield source.finding(
                number, "machine-path", f"`{found[0]}` exists on one machine: make it relative"
            )


# --- the whole ------------------------------------------------------------------------------------

FILE_CHECKS: Sequence[Callable[[Source], Iterator[Finding]]] = (
    check_function_length,
    check_file_length,
    check_time_units,
    check_banned_words,
    check_door,
    check_test_docstrings,
    check_page_title,
    check_todo,
    check_machine_paths,
)
TREE_CHECKS: Sequence[Callable[[Sequence[Source]], Iterator[Finding]]] = (
    check_folders,
    check_past_doors,
    check_dead_files,
)


def check_all(sources: Sequence[Source]) -> list[Finding]:
    """Run every check; sorted, so that the output is the same each time."""
    broken = [
        finding for source in sources if source.is_python for finding in _check_syntax(source)
    ]
    if broken:
        return broken
    findings = [finding for check in FILE_CHECKS for source in sources for finding in check(source)]
    findings += [finding for check in TREE_CHECKS for finding in check(sources)]
    return sorted(findings)


def _check_syntax(source: Source) -> Iterator[Finding]:
    try:
        _ = source.tree
    except SyntaxError as error:
        yield source.finding(error.lineno or 1, "syntax", error.msg)


def read_sources(root: Path) -> list[Source]:
    """Read every text file which belongs to the repository; images and the like are passed over."""
    sources = []
    for path in sorted(_repository_files(root)):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        sources.append(Source(path.relative_to(root).as_posix(), text))
    return sources


def _repository_files(root: Path) -> list[Path]:
    """What git tracks or would; in an unpacked archive, all but hidden and built folders."""
    command = [
        "git",
        "-C",
        str(root),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    if (root / ".git").exists():
        listing = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        paths = [root / name for name in listing.split("\0") if name]
    else:
        paths = [path for path in root.rglob("*") if not _is_skipped(path.relative_to(root))]
    # git also names what was deleted but not yet committed.
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def _is_skipped(path: Path) -> bool:
    hidden = {part for part in path.parts if part.startswith(".")} - VISIBLE_DOT_FOLDERS
    return bool(hidden or SKIPPED_FOLDERS.intersection(path.parts))


def main() -> int:
    """Check the repository around this file, or the one named."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent
    sources = read_sources(root.resolve())
    findings = check_all(sources)
    for finding in findings:
        print(finding)
    print(f"tidy: {len(sources)} files, {len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
