"""The house rules that a machine can check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "denyut"
TESTS = ROOT / "tests"
MODULES = sorted(PACKAGE.rglob("*.py"))
CODE = [*MODULES, *sorted(TESTS.rglob("*.py")), *sorted((ROOT / "examples").rglob("*.py"))]
BY_NAME = {"ids": lambda path: str(path.relative_to(ROOT)) if isinstance(path, Path) else str(path)}

LONGEST_FILE = 400
LONGEST_FUNCTION = 60

#: Which packages a package may import; everybody may import the modules at the top, except app.py.
MAY_IMPORT = {
    "tasks": set(),
    "signals": {"tasks"},
    "median": {"tasks"},
    "monitoring": {"median", "tasks"},
}
#: The modules at the top that tie the packages together.
TIES = {"__init__", "app", "default_broker"}

#: Modules without a test file of the same name, and where their behaviour is tested.
TESTED_ELSEWHERE = {
    "embedded_supervisor.py": "as a process, in tests/unit/test_embedded.py",
}


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def imports(path: Path) -> set[str]:
    """Return every module that ``path`` imports, anywhere in it, except for type checkers only."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("name", ["tasks", "signals", "median", "monitoring"])
def test_the_links_at_the_root_point_into_the_package(name):
    link = ROOT / name
    assert link.is_symlink()
    assert link.readlink() == Path("denyut") / name
    assert (link / "__init__.py").is_file()


@pytest.mark.parametrize("path", CODE, **BY_NAME)
def test_no_file_is_longer_than_anybody_reads(path):
    assert len(path.read_text().splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("path", CODE, **BY_NAME)
def test_no_function_is_longer_than_a_screen(path):
    long = [f.name for f in functions(path) if (f.end_lineno or 0) - f.lineno >= LONGEST_FUNCTION]
    assert not long


@pytest.mark.parametrize("path", [*CODE, *sorted(PACKAGE.rglob("*.lua"))], **BY_NAME)
def test_nothing_is_left_for_later(path):
    words = "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "Not" + "ImplementedError"])
    assert not re.findall(rf"\b({words})\b", path.read_text())


@pytest.mark.parametrize("path", MODULES, **BY_NAME)
def test_imports_run_one_way(path):
    parts = path.relative_to(PACKAGE).parts
    here = parts[0] if len(parts) > 1 else path.stem
    if here in TIES:
        return
    packages = {name.split(".")[1] for name in imports(path) if name.startswith("denyut.")} & set(MAY_IMPORT)
    assert packages <= MAY_IMPORT.get(here, set()) | {here}, f"{here} must not import these"


@pytest.mark.parametrize("path", MODULES, **BY_NAME)
def test_a_module_does_not_evaluate_its_annotations(path):
    text = path.read_text()
    assert "from __future__ import annotations" in text or not ast.parse(text).body[1:]


@pytest.mark.parametrize("path", MODULES, **BY_NAME)
def test_every_module_has_a_test_file_of_its_name(path):
    inside = path.relative_to(PACKAGE)
    if path.name == "__init__.py" or str(inside) in TESTED_ELSEWHERE:
        return
    assert (TESTS / "unit" / inside.parent / f"test_{path.name}").is_file()


def test_the_list_of_modules_tested_elsewhere_is_true():
    for name, where in TESTED_ELSEWHERE.items():
        assert (PACKAGE / name).is_file()
        assert (ROOT / where.split(" in ")[1]).is_file()


def test_every_folder_of_code_is_a_package():
    for path in MODULES:
        assert (path.parent / "__init__.py").is_file()


@pytest.mark.parametrize("path", sorted(TESTS.rglob("test_*.py")), **BY_NAME)
def test_no_test_sleeps_for_a_guess(path):
    """To wait is support.wait_until(); a sleep that is the thing under test says so beside it."""
    lines = path.read_text().splitlines()
    calls = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.Call)]
    sleeps = [node.lineno for node in calls if ast.unparse(node.func) in {"time.sleep", "sleep"}]
    assert not [line for line in sleeps if "  # " not in lines[line - 1]]


def test_importing_denyut_costs_neither_celery_nor_redis():
    script = "import sys, denyut; print({'celery', 'kombu', 'redis', 'sqlalchemy'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("path", MODULES, **BY_NAME)
def test_importing_a_module_starts_nothing(path):
    """No call at the top level of a module, but for those that only make a value."""
    harmless = {"Script", "re.compile", "TypeVar", "ParamSpec", "frozenset", "set", "dict", "tuple"}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = ast.unparse(node.value.func)
            assert name in harmless, f"line {node.lineno} calls {name} at import"
