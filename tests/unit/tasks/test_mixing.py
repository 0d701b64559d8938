from __future__ import annotations

from celery import Celery, Task, shared_task

from denyut import Denyut, JobTask
from denyut.tasks.mixing import is_job, mixed


class Base(Task):
    marker = "mine"

    def __call__(self, *args, **kwargs):
        return ("through my base", super().__call__(*args, **kwargs))


def test_tasks_of_every_making_are_jobs(pulse):
    one = pulse()

    @one.app.task(shared=False)
    def plain():
        pass

    @one.app.task(shared=False, base=Base)
    def based():
        pass

    class ByClass(Task):
        name = "t.by_class"

        def run(self):
            pass

    one.app.register_task(ByClass())

    @shared_task(name="t.shared")
    def shared():
        pass

    one.app.finalize()
    for name in (plain.name, based.name, "t.by_class", "t.shared"):
        assert isinstance(one.app.tasks[name], JobTask), name
    assert based.marker == "mine"


def test_tasks_registered_before_denyut_are_jobs_too():
    app = Celery("early", broker="memory://", set_as_current=False)

    @app.task(name="t.early", shared=False, lazy=False)
    def early():
        pass

    Denyut(app)
    assert isinstance(app.tasks["t.early"], JobTask)


def test_celerys_own_tasks_stay_as_they_are(pulse):
    one = pulse()
    one.app.finalize()
    own = [name for name in one.app.tasks if name.startswith("celery.")]
    assert own
    assert not any(isinstance(one.app.tasks[name], JobTask) for name in own)
    assert not any(is_job(one, name) for name in own)


def test_a_base_with_its_own_call_is_still_called(pulse):
    one = pulse()

    @one.app.task(shared=False, base=Base)
    def based():
        return 1

    assert based() == ("through my base", 1)


def test_mixing_twice_changes_nothing():
    assert mixed(mixed(Base)) is mixed(Base)
    assert mixed(JobTask) is JobTask


def test_an_unknown_name_is_a_job_only_when_all_tasks_are(pulse):
    assert is_job(pulse(), "somewhere.else")
    assert not is_job(pulse(all_tasks=False), "somewhere.else")
