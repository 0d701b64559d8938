from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from denyut.embedded_folder import Folder, project_folder
from denyut.errors import EmbeddedUnavailable


@pytest.mark.parametrize("marker", ["pyproject.toml", "setup.py", "manage.py", ".git"])
def test_a_project_is_the_nearest_folder_with_a_marker(tmp_path, marker):
    inner = tmp_path / "outer" / "project"
    (inner / "src" / "pkg").mkdir(parents=True)
    (tmp_path / "outer" / "setup.py").touch()
    (inner / marker).touch()
    assert project_folder(inner / "src" / "pkg") == inner
    assert project_folder(inner) == inner
    assert project_folder(tmp_path / "outer") == tmp_path / "outer"


def test_without_a_marker_it_is_the_folder_itself(monkeypatch):
    with tempfile.TemporaryDirectory() as folder:
        if project_folder(Path(folder).parent) != Path(folder).parent.resolve():
            pytest.fail("a folder for temporary files inside a project: set TMPDIR to run this test")
        monkeypatch.chdir(folder)
        assert project_folder() == Path(folder).resolve()


def test_a_link_to_a_project_is_the_project(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "manage.py").touch()
    (tmp_path / "link").symlink_to("real")
    assert project_folder(tmp_path / "link") == tmp_path / "real"


def test_the_start_lock_is_waited_for_and_then_given_up(tmp_path):
    folder = Folder.of(tmp_path)
    message = r"has been starting .* for 0\.1 s .*start\.lock"
    with folder.locked(1.0), pytest.raises(EmbeddedUnavailable, match=message), folder.locked(0.1):
        pass
    with folder.locked(0.1):
        pass


def test_a_lock_held_at_a_fork_does_not_stay_with_the_child(tmp_path):
    folder = Folder.of(tmp_path)
    reader, writer = os.pipe()
    with folder.locked(1.0):
        child = os.fork()
        if not child:
            os.read(reader, 1)
            os._exit(0)
    try:
        with folder.locked(0.5):
            assert not folder.is_in_use()
    finally:
        os.write(writer, b".")
        os.waitpid(child, 0)
        os.close(writer)
        os.close(reader)


def test_a_socket_goes_where_a_socket_can_be(tmp_path, monkeypatch):
    folder = Folder.of(tmp_path)
    if len(str(folder.path)) < 80:
        assert folder.socket() == folder.path / "valkey.sock"
    monkeypatch.setattr("denyut.embedded_folder._can_hold_socket", lambda _: False)
    assert folder.socket().parent == Path(tempfile.gettempdir()) / f"denyut-{os.geteuid()}"
    assert folder.socket() == folder.socket()


def test_a_temporary_folder_that_others_can_enter_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("denyut.embedded_folder._can_hold_socket", lambda _: False)
    with tempfile.TemporaryDirectory() as temporary:
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        private = Path(temporary) / f"denyut-{os.geteuid()}"
        private.mkdir(mode=0o777)
        private.chmod(0o777)
        with pytest.raises(EmbeddedUnavailable, match=r"only you can enter .*mode 700.*set TMPDIR"):
            Folder.of(tmp_path).socket()
        private.rmdir()
        private.symlink_to(tmp_path)
        with pytest.raises(EmbeddedUnavailable, match="only you can enter"):
            Folder.of(tmp_path).socket()


def test_a_very_long_folder_for_temporary_files_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("denyut.embedded_folder._can_hold_socket", lambda _: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("t" * 90)))
    assert Folder.of(tmp_path).socket().parent == Path("/tmp") / f"denyut-{os.geteuid()}"
