"""Streams on the private server."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from unit.median.median_stream import Stream, stream_on


@pytest.fixture(scope="session")
def new_stream(valkey_server: Any) -> Any:
    """Make streams that nobody has used before: Hypothesis makes thousands, so this lives for a session."""
    pulse = stream_on(valkey_server.url, uuid4().hex[:8], "").pulse
    yield lambda: Stream(pulse, pulse.store.client, f"s{uuid4().hex}")
    pulse.store.close()


@pytest.fixture
def stream(new_stream: Any) -> Stream:
    return new_stream()
