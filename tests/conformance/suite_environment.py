"""Celery's own suite, its tools and one version of Celery, in a private environment below the project.

Celery's source distribution ships ``t/integration`` and names the tools it is tested with. Only these
are taken from it: what is tested is the installed Celery of the same version.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "SuiteEnvironment", "oldest_and_newest", "suite_tools"]

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".conformance"

#: What modules of the suite import beyond Celery's own dependencies and its test tools.
_IMPORTED = ("cryptography", "django>=4.2", "pydantic>=2", "requests", "tblib")
#: With redis-py 8, which reads for 5 s at most, blocking reads of the older suite break, stock as well.
_PINNED = {"oldest": ("redis<8",)}
#: Of the sdist: the suite, and the tables in pyproject.toml and setup.cfg that configure pytest.
_WANTED = ("t", "pyproject.toml", "setup.cfg")


@dataclass(frozen=True)
class SuiteEnvironment:
    """One version of Celery, ready to be tested. Make it with :meth:`prepare`, find it with :meth:`find`."""

    name: str
    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter that has this Celery."""
        return self.folder / "venv" / "bin" / "python"

    @property
    def suite(self) -> Path:
        """The folder in which ``t/integration`` is."""
        return self.folder / "suite"

    @property
    def ready(self) -> bool:
        """Whether it was prepared for the project as it is now."""
        stamp = self.folder / "prepared"
        return stamp.exists() and stamp.read_text() == _stamp(self.name)

    def versions(self) -> dict[str, str]:
        """Return the versions of what decides the outcome."""
        code = (
            "import json, platform\nfrom importlib.metadata import version\n"
            "names = ('celery', 'kombu', 'billiard', 'redis', 'pytest')\n"
            "print(json.dumps({'python': platform.python_version()} | {n: version(n) for n in names}))"
        )
        import json

        return dict(json.loads(subprocess.check_output([str(self.python), "-c", code], text=True)))

    @classmethod
    def find(cls, name: str) -> SuiteEnvironment:
        """Return the environment ``name`` (``oldest`` or ``newest``), prepared or not."""
        return cls(name, CACHE / name)

    @classmethod
    def prepare(cls, name: str) -> SuiteEnvironment:
        """Make the environment ``name``, if it is not there yet. Needs PyPI.

        Raises:
            subprocess.CalledProcessError: pip could not download or install something; it says what.
        """
        made = cls.find(name)
        if made.ready:
            return made
        shutil.rmtree(made.folder, ignore_errors=True)
        made.folder.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", str(made.folder / "venv")], check=True)
        requirement = oldest_and_newest(_project())[name]
        made._unpack(requirement)
        version = made._version()
        tools = suite_tools((made.folder / "test.txt").read_text())
        wanted = [*_own_dependencies(_project()), *tools, *_IMPORTED, *_PINNED.get(name, ())]
        made._pip("install", f"celery[redis]=={version}", *wanted)
        (made.folder / "prepared").write_text(_stamp(name))
        return made

    def _unpack(self, requirement: str) -> None:
        self._pip("download", "--no-deps", "--no-binary", "celery", "-d", str(self.folder), requirement)
        [archive] = self.folder.glob("celery-*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(self.folder / "sdist", filter="data")
        [source] = (self.folder / "sdist").iterdir()
        self.suite.mkdir()
        for name in _WANTED:
            (source / name).rename(self.suite / name)
        (source / "requirements" / "test.txt").rename(self.folder / "test.txt")
        shutil.rmtree(self.folder / "sdist")

    def _version(self) -> str:
        [archive] = self.folder.glob("celery-*.tar.gz")
        return archive.name.removeprefix("celery-").removesuffix(".tar.gz")

    def _pip(self, *args: str) -> None:
        pip = [str(self.python), "-m", "pip", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, *args], check=True)


def oldest_and_newest(project: dict[str, list[str]]) -> dict[str, str]:
    """Return how pip is asked for the two ends of the range of Celery that the project supports."""
    [spec] = [text for text in project["dependencies"] if re.match(r"celery\b", text)]
    bounds = spec.partition("]")[2] or spec.removeprefix("celery")
    lowest = re.search(r">=\s*([\d.]+)", bounds)
    assert lowest is not None, f"no lower bound of Celery in {spec!r}"
    return {"oldest": f"celery=={lowest[1]}", "newest": f"celery{bounds}"}


def suite_tools(requirements: str) -> list[str]:
    """Return the pytest and its plugins that a Celery names in its ``requirements/test.txt``.

    Not pytest-celery: it wants Docker, and the suite uses ``celery.contrib.pytest``.
    """
    lines = (line.partition(";")[0].strip() for line in requirements.splitlines())
    return [line for line in lines if line.startswith("pytest") and not line.startswith("pytest-celery")]


def _own_dependencies(project: dict[str, list[str]]) -> Iterable[str]:
    return [text for text in project["dependencies"] if not re.match(r"celery\b", text)]


def _project() -> dict[str, list[str]]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])


def _stamp(name: str) -> str:
    project = _project()
    return "\n".join(
        [oldest_and_newest(project)[name], *project["dependencies"], *_IMPORTED, *_PINNED.get(name, ())]
    )
