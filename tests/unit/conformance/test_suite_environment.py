from __future__ import annotations

import pytest
from suite_environment import SuiteEnvironment, oldest_and_newest, suite_tools


def test_the_two_ends_of_the_supported_range_are_read_from_the_project():
    ends = oldest_and_newest({"dependencies": ["click>=8", "celery[redis]>=5.6,<5.8"]})
    assert ends == {"oldest": "celery==5.6", "newest": "celery>=5.6,<5.8"}


def test_a_range_without_a_lower_end_is_refused():
    with pytest.raises(AssertionError, match="no lower bound"):
        oldest_and_newest({"dependencies": ["celery<6"]})


def test_the_tools_are_those_that_celery_names_without_docker():
    text = 'pytest==9.1.1\npytest-celery[all]>=1.3\npytest-order==1.5; python_version >= "3.9"\nmoto==5\n'
    assert suite_tools(text) == ["pytest==9.1.1", "pytest-order==1.5"]


def test_an_environment_is_ready_only_for_the_project_it_was_made_for(tmp_path):
    environment = SuiteEnvironment("newest", tmp_path)
    assert not environment.ready
    (tmp_path / "prepared").write_text("celery>=4")
    assert not environment.ready
