from __future__ import annotations

import re
from hashlib import sha1
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

import denyut
from denyut.scripts import Script, run_all, slot_tag

PACKAGE = Path(denyut.__file__).parent
FILES = sorted(PACKAGE.rglob("lua/*.lua"))
SHARED = [path for path in FILES if path.parent.parent == PACKAGE]
SCRIPTS = [path for path in FILES if path not in SHARED]
BY_NAME = {"ids": lambda path: str(path.relative_to(PACKAGE))}

ECHO = "-- Says it again.\n-- @include time\nreturn {ARGV[1], KEYS[1], type(now_us)}\n"
FAIL = "return redis.error_reply('NOPE ' .. ARGV[1])\n"
COUNT = "return redis.call('INCR', KEYS[1])\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with three scripts, importable under a name of its own."""
    name = f"scripts_of_{tmp_path.name.replace('-', '_')}"
    lua = tmp_path / name / "lua"
    lua.mkdir(parents=True)
    (tmp_path / name / "__init__.py").touch()
    for verb, text in {"echo": ECHO, "fail": FAIL, "count": COUNT}.items():
        (lua / f"{verb}.lua").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def called_by(path: Path) -> Script:
    return Script(".".join(path.parent.parent.relative_to(PACKAGE.parent).parts), path.stem)


def head(path: Path) -> str:
    lines = path.read_text().splitlines()
    count = next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))
    return "\n".join(lines[:count])


def numbered(text: str, name: str) -> int:
    """Return how many KEYS or ARGV the head lists."""
    listed = re.search(rf"^-- {name}: (.*?)(?=^-- [A-Z][A-Za-z]+:|^-- @|\Z)", text, re.MULTILINE | re.DOTALL)
    assert listed, f"the head does not list {name}"
    if "fourteen" in listed.group(1):
        return 14
    numbers = [int(n) for n in re.findall(r"(?:^|, |\n-- +|and )(\d+) [^ ]", listed.group(1))]
    assert numbers == list(range(1, len(numbers) + 1)), f"{name} are not numbered 1, 2, ...: {numbers}"
    return len(numbers)


# ---- every script of the package -------------------------------------------------------------------


def test_there_are_scripts_to_look_at():
    assert len(SCRIPTS) > 10
    assert SHARED


@pytest.mark.parametrize("path", SCRIPTS, **BY_NAME)
def test_a_script_says_at_its_head_what_goes_in_and_what_comes_out(path):
    text = head(path)
    for part in ("KEYS", "ARGV", "Returns", "Complexity"):
        assert re.search(rf"^-- {part}: \S", text, re.MULTILINE), f"no {part} in the head"
    assert not text.startswith("-- KEYS"), "the first line says what the script does"


@pytest.mark.parametrize("path", SCRIPTS, **BY_NAME)
def test_a_script_uses_the_keys_and_arguments_that_its_head_lists(path):
    body = re.sub(r"--.*", "", path.read_text())
    for name in ("KEYS", "ARGV"):
        used = [int(n) for n in re.findall(rf"{name}\[(\d+)\]", body)]
        assert max(used, default=0) <= numbered(head(path), name)


@pytest.mark.parametrize("path", FILES, **BY_NAME)
def test_a_script_is_short(path):
    assert len(path.read_text().splitlines()) <= 120


@pytest.mark.parametrize("path", SCRIPTS, **BY_NAME)
def test_a_script_compiles_with_its_includes(path, valkey):
    script = called_by(path)
    assert "@include" not in script.source, "an include was not resolved"
    assert valkey.script_load(script.source) in {script.sha, script.sha.encode()}


@pytest.mark.parametrize("path", SCRIPTS, **BY_NAME)
def test_a_script_uses_no_global_variable(path, valkey):
    # The server refuses to create one, but only when the line is reached; a typo in a rare branch waits.
    source = called_by(path).source
    body = re.sub(r"--.*|'[^'\n]*'|\"[^\"\n]*\"", "", source)
    known = set(re.findall(r"local function (\w+)|function \w*\(", body))
    for names in re.findall(r"\blocal ([\w, ]+?)(?= =|=|\n|;| in\b)", body):
        known |= {name.strip() for name in names.split(",")}
    for names in re.findall(r"function ?\w*\(([\w, ]*)\)", body):
        known |= {name.strip() for name in names.split(",")}
    for names in re.findall(r"\bfor ([\w, ]+?) ?(?:=|in\b)", body):
        known |= {name.strip() for name in names.split(",")}
    assigned = set(re.findall(r"^\s*(\w+) = ", body, re.MULTILINE))
    tables = set(re.findall(r"[{,]\s*\n?\s*(\w+) = ", body))
    assert assigned - tables <= known


@pytest.mark.parametrize("path", SCRIPTS, **BY_NAME)
def test_a_script_includes_every_function_that_it_calls(path):
    body = re.sub(r"--.*|'[^'\n]*'|\"[^\"\n]*\"", "", called_by(path).source)
    lua = {"ipairs", "pairs", "pcall", "tonumber", "tostring", "type", "unpack", "error", "select", "next"}
    known = (
        lua
        | set(re.findall(r"\blocal function (\w+)", body))
        | {"function", "if", "and", "or", "not", "return"}
    )
    known |= set(re.findall(r"\blocal (\w+) = function", body)) | {"in", "while", "elseif", "until"}
    assert set(re.findall(r"(?<![\w.:])(\w+)\s?\(", body)) <= known


@pytest.mark.parametrize("path", SHARED, **BY_NAME)
def test_a_shared_part_is_used_and_says_what_it_is_for(path):
    assert head(path).startswith("-- ")
    users = [each for each in FILES if f"-- @include {path.stem}\n" in each.read_text()]
    assert users, "nobody includes it"


@pytest.mark.parametrize("path", SCRIPTS, **BY_NAME)
def test_a_script_is_called_by_somebody(path):
    script = called_by(path)
    call = re.compile(rf"Script\(\s*\"{re.escape(script.package)}\",\s*\"{script.name}\"\s*\)")
    assert any(call.search(each.read_text()) for each in PACKAGE.rglob("*.py"))


def test_no_script_is_a_text_in_python():
    for path in PACKAGE.rglob("*.py"):
        assert "redis.call" not in path.read_text(), f"{path.name} has Lua in it"


# ---- how a script is called ------------------------------------------------------------------------


def test_an_include_is_replaced_by_the_shared_part(package, valkey):
    script = Script(package, "echo")
    assert (PACKAGE / "lua" / "time.lua").read_text() in script.source
    assert script.sha == sha1(script.source.encode()).hexdigest()
    assert script(valkey, ["{a}k"], ["hello"]) == [b"hello", b"{a}k", b"function"]


def test_an_include_of_an_include_is_replaced_too():
    source = Script("denyut.tasks", "settle").source
    assert (PACKAGE / "lua" / "story.lua").read_text() in source


def test_a_script_runs_again_after_the_server_has_lost_its_cache(package, valkey):
    script = Script(package, "count")
    valkey.script_flush()
    assert script(valkey, ["n"]) == 1
    assert valkey.script_exists(script.sha) == [True]
    assert script(valkey, ["n"]) == 2
    valkey.script_flush()
    assert script(valkey, ["n"]) == 3


def test_an_error_of_a_script_is_raised(package, valkey):
    with pytest.raises(ResponseError, match="NOPE now"):
        Script(package, "fail")(valkey, ["k"], ["now"])


def test_a_missing_script_is_an_error_that_names_the_file(package):
    with pytest.raises(FileNotFoundError, match="absent"):
        _ = Script(package, "absent").source


def test_many_calls_go_in_one_round_trip_and_answer_in_order(package, valkey):
    echo, count = Script(package, "echo"), Script(package, "count")
    count(valkey, ["warm"]), echo(valkey, ["warm"], ["x"])
    before = count_of(valkey, "evalsha")
    calls = [call for i in range(50) for call in (echo.with_(["k"], [i]), count.with_(["n"]))]
    replies = run_all(valkey, calls)
    assert [reply[0] for reply in replies[::2]] == [str(i).encode() for i in range(50)]
    assert replies[1::2] == list(range(1, 51))
    assert count_of(valkey, "evalsha") - before == 100


def test_calls_whose_script_is_not_loaded_run_all_the_same_and_each_once(package, valkey):
    echo, count = Script(package, "echo"), Script(package, "count")
    echo(valkey, ["k"], ["x"])
    valkey.script_flush()
    replies = run_all(valkey, [count.with_(["n"]), echo.with_(["k"], ["a"]), count.with_(["n"])])
    assert sorted([replies[0], replies[2]]) == [1, 2]
    assert replies[1][0] == b"a"
    assert valkey.get("n") == b"2"


def test_one_bad_call_raises_after_all_have_run(package, valkey):
    count, fail = Script(package, "count"), Script(package, "fail")
    with pytest.raises(ResponseError, match="NOPE"):
        run_all(valkey, [count.with_(["n"]), fail.with_(["k"], ["x"]), count.with_(["n"])])
    assert valkey.get("n") == b"2"


def test_one_bad_call_may_be_told_in_its_place(package, valkey):
    count, fail = Script(package, "count"), Script(package, "fail")
    first, bad, last = run_all(
        valkey, [count.with_(["n"]), fail.with_(["k"], ["x"]), count.with_(["n"])], raising=False
    )
    assert (first, last) == (1, 2)
    assert isinstance(bad, ResponseError)


def test_no_calls_are_no_round_trip():
    assert run_all(None, []) == []


def count_of(client, command: str) -> int:
    return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


# ---- one slot --------------------------------------------------------------------------------------


def test_keys_of_one_script_share_a_tag():
    assert slot_tag(["a:{3}:x", "b:{3}:y"]) == "3"
    assert slot_tag(["plain"]) == "plain"
    assert slot_tag(["{3}a", "3"]) == "3", "the same slot, by Redis' own rule"


@pytest.mark.parametrize("keys", [["a:{3}:x", "a:{4}:x"], ["a", "b"], []])
def test_keys_of_different_slots_are_refused(keys):
    with pytest.raises(ValueError, match="must share one hash tag"):
        slot_tag(keys)


@pytest.mark.parametrize("path", SCRIPTS, **BY_NAME)
def test_a_script_calls_no_function_that_it_does_not_have(path):
    """Lua notices only when it comes there: a missing include would be an error of one rare path."""
    text = re.sub(r"--.*|'[^'\n]*'", "", called_by(path).source)
    own = set(re.findall(r"function (\w+)", text))
    words = {"and", "elseif", "for", "function", "if", "in", "not", "or", "return", "until", "while"}
    built_in = {"error", "ipairs", "pairs", "pcall", "select", "tonumber", "tostring", "type", "unpack"}
    called = set(re.findall(r"(?<![\w.:])(\w+) ?\(", text))
    parameters = {
        name for names in re.findall(r"function[ \w]*\(([\w, ]+)", text) for name in names.split(", ")
    }
    assert not called - own - words - built_in - parameters
