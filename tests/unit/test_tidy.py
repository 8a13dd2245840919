"""Each check of `tools/tidy.py`, with an example that it refuses and one that it lets pass."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import tidy
from tidy import Finding, Source

INNER = "src/headway/policy/order.py"
DOOR = '"""Knows decisions."""\n'
MACHINE_PATH = "/" + "home/alice/headway/models"
TODO = "TO" + "DO"
FIXME = "FIX" + "ME"


def rules(findings: Iterable[Finding]) -> list[str]:
    """The names of the rules that were broken, in order."""
    return [finding.rule for finding in findings]


def a_tree(texts: Mapping[str, str]) -> list[Source]:
    """A package from `{"folder/file": text}`; doors that are not given are made."""
    files = {f"src/headway/{name}.py": text for name, text in texts.items()}
    doors = {path.rpartition("/")[0] + "/__init__.py": DOOR for path in files}
    return [Source(path, text) for path, text in {**doors, **files}.items()]


# --- size -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lines", "expected"), [(70, []), (71, ["function-length"])])
def test_function_length_has_a_limit(lines: int, expected: list[str]) -> None:
    """A function of 70 lines passes and one of 71 does not."""
    source = Source(INNER, "def rank():\n" + "    pass\n" * (lines - 1))
    assert rules(tidy.check_function_length(source)) == expected


@pytest.mark.parametrize(("lines", "expected"), [(500, []), (501, ["file-length"])])
def test_file_length_has_a_limit(lines: int, expected: list[str]) -> None:
    """A file of 500 lines passes and one of 501 does not."""
    assert rules(tidy.check_file_length(Source(INNER, "pass\n" * lines))) == expected


def test_size_outside_the_package_is_free() -> None:
    """Tests may be as long as they need."""
    source = Source("tests/unit/test_x.py", "def test_x():\n" + "    pass\n" * 600)
    assert rules([*tidy.check_function_length(source), *tidy.check_file_length(source)]) == []


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "def wait(timeout: float): ...",
        "def wait(*, queue_delay: int | None = None): ...",
        "def wait(latencies: list[float]): ...",
        "class Batch:\n    deadline: int",
        "class Batch:\n    deadline_max: 'int'",
        "class Batch:\n    @property\n    def slack(self) -> int: ...",
        "class Batch:\n    def __init__(self):\n        self._elapsed: float = 0.0",
        "class Batch:\n    def __init__(self):\n        self._interval = 5",
        "DEFAULT_TIMEOUT = 30",
    ],
)
def test_time_without_unit_is_refused(text: str) -> None:
    """A number that measures time must say in which unit, wherever it is named."""
    assert rules(tidy.check_time_units(Source(INNER, text))) == ["time-unit"]


@pytest.mark.parametrize(
    "text",
    [
        "def wait(timeout_s: float): ...",
        "class Batch:\n    queue_delay_ns_max: int",
        "class Batch:\n    deadline_at_ns: int",
        "class Batch:\n    deadline_missed_count: int",
        "class Batch:\n    latency_quantile: float",
        "class Config:\n    linger: Duration",
        "class Config:\n    linger: str",
        "class Batch:\n    is_past_deadline: bool",
        "class Batch:\n    latency_of: Mapping[ModelName, LatencyModel]",
        "class Batch:\n    def deadline(self) -> int: ...",
        "def rank(requests):\n    deadline = 5",
    ],
)
def test_time_with_unit_or_without_number_passes(text: str) -> None:
    """A unit after the time, or a type which is no bare number, is enough."""
    assert rules(tidy.check_time_units(Source(INNER, text))) == []


def test_time_on_the_wire_keeps_its_name() -> None:
    """Frontends speak the words of their protocols."""
    source = Source("src/headway/frontends/openai.py", "class Body:\n    timeout: float")
    assert rules(tidy.check_time_units(source)) == []


def test_time_allowed_by_the_table_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception with a reason is honoured."""
    monkeypatch.setattr(tidy, "TIME_NAMES_ALLOWED", {"timeout": "the argument of queue.Queue.get"})
    assert rules(tidy.check_time_units(Source(INNER, "def get(timeout: float): ..."))) == []


@pytest.mark.parametrize("name", ["PoolManager", "HTTPHandler", "InfoLine", "StepHelperImpl"])
def test_class_named_for_nothing_is_refused(name: str) -> None:
    """The banned words of the glossary may not be in a class name."""
    found = rules(tidy.check_banned_words(Source(INNER, f"class {name}: ...")))
    assert set(found) == {"banned-word"}


@pytest.mark.parametrize("name", ["Information", "Implied", "BatchPool"])
def test_class_with_similar_word_passes(name: str) -> None:
    """Only whole words count."""
    assert rules(tidy.check_banned_words(Source(INNER, f"class {name}: ..."))) == []


def test_file_named_for_nothing_is_refused() -> None:
    """A file called `utils` has no subject."""
    source = Source("src/headway/policy/utils.py", "")
    assert rules(tidy.check_banned_words(source)) == ["banned-word"]


# --- folders and doors ----------------------------------------------------------------------------


def test_door_without_docstring_is_refused() -> None:
    """A folder says at its door what it knows."""
    source = Source("src/headway/policy/__init__.py", "")
    assert rules(tidy.check_door(source)) == ["folder-docstring"]


def test_door_shows_only_its_own_folder() -> None:
    """What a door imports from elsewhere would escape the purity contracts."""
    path = "src/headway/policy/__init__.py"
    foreign = Source(path, DOOR + "import asyncio\nfrom headway.core import Request\n")
    own = Source(path, DOOR + "from headway.policy.order import rank\n")
    assert rules(tidy.check_door(foreign)) == ["door", "door"]
    assert rules(tidy.check_door(own)) == []


def test_package_door_is_free() -> None:
    """The package's own `__init__.py` is no folder's door."""
    assert rules(tidy.check_door(Source("src/headway/__init__.py", "import importlib"))) == []


def test_folder_without_door_is_refused() -> None:
    """Each folder with code has an `__init__.py`."""
    assert rules(tidy.check_folders([Source(INNER, "")])) == ["folder-docstring"]
    assert rules(tidy.check_folders(a_tree({"policy/order": ""}))) == []


def test_folder_in_a_folder_is_refused() -> None:
    """The package stays flat, but for the dashboard."""
    assert rules(tidy.check_folders(a_tree({"policy/orders/edf": ""}))) == ["folder-depth"]
    assert rules(tidy.check_folders(a_tree({"frontends/dashboard/page": ""}))) == []


@pytest.mark.parametrize(
    "statement",
    [
        "from headway.core.kernel import Kernel",
        "import headway.core.kernel",
        "from headway.core import kernel",
    ],
)
def test_import_past_a_door_is_refused(statement: str) -> None:
    """Another folder's files are its own business."""
    sources = a_tree({"core/kernel": "", "policy/order": statement})
    assert rules(tidy.check_past_doors(sources)) == ["past-door"]


def test_import_through_a_door_passes() -> None:
    """A public name may be imported from a folder, even one called like its file."""
    door = DOOR + "from headway.core.kernel import Kernel, kernel\n"
    statement = "from headway.core import Kernel, kernel\n"
    sources = a_tree({"core/__init__": door, "core/kernel": "", "policy/order": statement})
    assert rules(tidy.check_past_doors(sources)) == []


def test_import_inside_a_folder_or_by_a_test_passes() -> None:
    """A folder knows its own files, and tests may look inside."""
    statement = "from headway.core.kernel import Kernel"
    inside = a_tree({"core/kernel": "", "core/record": statement})
    test = Source("tests/unit/test_kernel.py", statement)
    assert rules(tidy.check_past_doors([*inside, test])) == []


def test_file_that_nothing_imports_is_refused() -> None:
    """A file needs a reader, and it is not its own."""
    sources = a_tree({"core/kernel": "import headway.core.kernel"})
    found = list(tidy.check_dead_files(sources))
    assert [(finding.path, finding.rule) for finding in found] == [
        ("src/headway/core/kernel.py", "dead-file")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "from headway.core.kernel import Kernel",
        "from headway.core import kernel",
        "COMMAND = ['-m', 'headway.core.kernel']",
        "ENTRY = 'headway.core.kernel:main'",
    ],
)
def test_file_that_something_names_passes(text: str) -> None:
    """An import or a name in text, as for a lazy import, keeps a file alive."""
    sources = a_tree({"core/__init__": DOOR + text, "core/kernel": "", "__main__": ""})
    assert rules(tidy.check_dead_files(sources)) == []


# --- tests, pages, comments -----------------------------------------------------------------------


def test_test_without_docstring_is_refused() -> None:
    """A test says what it promises, in a class too; other functions need not."""
    path = "tests/unit/test_x.py"
    silent = Source(path, "class TestX:\n    async def test_a(self): ...\n\ndef helper(): ...")
    speaking = Source(path, "def test_a():\n    '''It holds.'''\n")
    assert rules(tidy.check_test_docstrings(silent)) == ["test-docstring"]
    assert rules(tidy.check_test_docstrings(speaking)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Title\n\n## Part\n", []),
        ("# Title\n```sh\n# a comment\n```\n", []),
        ("# Title\n````md\n```\n# inner\n```\n````\n", []),
        ("no title\n", ["page-title"]),
        ("# One\n# Two\n", ["page-title"]),
    ],
)
def test_page_has_one_title(text: str, expected: list[str]) -> None:
    """A Markdown page has one first-level heading; comments in code blocks are none."""
    assert rules(tidy.check_page_title(Source("docs/page.md", text))) == expected


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (INNER, f"x = 1  # {TODO}: later\n", ["todo"]),
        (INNER, f"x = 1  # {TODO}(alice): later\n", ["todo"]),
        (INNER, f"x = 1  # {FIXME}(#12): now\n", ["todo"]),
        (INNER, f"x = 1  # {TODO}(#12): later\n", []),
        (INNER, f'"""{TODO} is a word."""\n', []),
        ("a.yaml", f"x: 1  # {TODO}\n", ["todo"]),
        ("Makefile", f"# {FIXME}\n", ["todo"]),
        ("docs/style.md", f"{TODO} needs an issue\n", []),
    ],
)
def test_todo_needs_an_issue(path: str, text: str, expected: list[str]) -> None:
    """What is left to do in a comment names its issue; prose may use the words."""
    assert rules(tidy.check_todo(Source(path, text))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"models = {MACHINE_PATH}", ["machine-path"]),
        (f'"command": "bench --out {MACHINE_PATH}"', ["machine-path"]),
        ("WORKDIR " + MACHINE_PATH.replace("alice", "you"), []),
        ("https://example.org" + MACHINE_PATH, []),
        ("src" + MACHINE_PATH, []),
        ("/tmp/headway.sock and /proc/self/fd", []),
    ],
)
def test_path_on_one_machine_is_refused(text: str, expected: list[str]) -> None:
    """Nobody else has my home folder; the same letters in a URL are no path."""
    assert rules(tidy.check_machine_paths(Source("benchmarks/results/x.json", text))) == expected


# --- the whole ------------------------------------------------------------------------------------


def test_syntax_error_is_a_finding() -> None:
    """A file that is no Python is reported alone, for nothing else can be said."""
    assert rules(tidy.check_all([Source(INNER, "def"), Source("a.md", "")])) == ["syntax"]


def test_finding_prints_as_compilers_do() -> None:
    """Editors jump to path and line."""
    assert str(Finding("a.py", 3, "todo", "mend it")) == "a.py:3: todo: mend it"


def test_archive_is_read_without_hidden_built_and_binary_files(tmp_path: Path) -> None:
    """Outside git, what a tool left behind does not count, and neither does an image."""
    for name in (".ci/run", ".venv/lib/x.py", "src/a.py", "src/__pycache__/b.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("pass\n")
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\xff")
    assert [source.path for source in tidy.read_sources(tmp_path)] == [".ci/run", "src/a.py"]
