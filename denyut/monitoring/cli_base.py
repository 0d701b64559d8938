"""What all commands share: the app's Denyut, and errors as one line."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.app import Denyut

__all__ = ["as_json", "command", "reason_option"]

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
reason_option = click.option("--reason", default="", help="Why; kept with the job, or in the audit.")


def command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a command of ``function(pulse, ...)``; an error of the user's is one line and exit code 1."""

    @click.pass_context
    @wraps(function)
    def run(context: click.Context, /, *args: Any, **kwargs: Any) -> Any:
        from kombu.exceptions import OperationalError
        from redis.exceptions import RedisError

        from denyut.errors import DenyutError

        try:
            return function(_pulse(context), *args, **kwargs)
        except RedisError as exc:
            raise _Failure(f"Redis: {exc}") from exc
        except OperationalError as exc:
            raise _Failure(f"the broker: {exc}") from exc
        except DenyutError as exc:
            raise _Failure(str(exc)) from exc
        except Exception as exc:
            if type(exc).__module__.startswith("sqlalchemy."):  # not imported for the sake of its errors
                raise _Failure(f"the job store: {str(exc).splitlines()[0]}") from exc
            raise

    return run


class _Failure(click.ClickException):
    """An error in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def _pulse(context: click.Context) -> Denyut:
    pulse: Denyut | None = getattr(context.obj.app, "denyut", None)
    if pulse is None:
        raise _Failure(
            "this app has no Denyut: write Denyut(app) after app = Celery(...), "
            "and name that app: celery -A MODULE denyut ..."
        )
    return pulse
