"""`queryveil stream` from the outside."""

import json

from live.scenes import MECHANISM, some_records

FLAGS = [f"--{name.replace('_', '-')}={value}" for name, value in MECHANISM.items()]


def fed(path, count=600):
    path.write_text("".join(json.dumps(record) + "\n" for record in some_records(count)))
    return path


def test_a_file_is_streamed_and_goes_on_where_it_stopped(run, tmp_path):
    log, out = fed(tmp_path / "log.jsonl"), tmp_path / "out.jsonl"
    ends = ["stream", "--from", log, "--to", out, "--run", "web", *FLAGS]
    code, told, said = run(*ends)
    assert code == 0, said
    assert not told
    first = out.read_text()
    assert {*json.loads(first.splitlines()[0])} == {"user", "query", "category"}
    assert run(*ends)[0] == 0
    assert out.read_text() == first


def test_flags_win_over_the_config_file(run, tmp_path):
    log = fed(tmp_path / "log.jsonl")
    config = tmp_path / "live.toml"
    lines = [f'from = "{log}"', 'to = "nowhere/out"', 'run = "web"', "batch = 50", "[mechanism]"]
    config.write_text("\n".join([*lines, *(f"{name} = {json.dumps(value)}" for name, value in MECHANISM.items())]))
    code, _, said = run("stream", "--config", config, "--to", tmp_path / "out.tsv", "--output-format", "aol", "--watch")
    assert code == 0, said
    assert (tmp_path / "out.tsv").read_text().count("\t") % 4 == 0
    assert "records a second" in said


def test_wrong_usage_is_told(run, tmp_path):
    assert run("stream", "--to", "x")[0] == 2
    code, _, said = run("stream", "--from", "carrier-pigeon:a", "--to", "b", "--run", "web")
    assert (code, "is no connector" in said) == (2, True)
    code, _, said = run("stream", "--from", fed(tmp_path / "a.jsonl", 5), "--to", "-", "--run", "web")
    assert (code, "--checkpoint" in said) == (2, True)
    code, _, said = run(
        "stream", "--from", tmp_path / "a.jsonl", "--to", tmp_path / "b", "--run", "x", "--mode", "paper"
    )
    assert code == 3


def test_the_last_line_says_what_was_left_out_and_left_unread_and_the_port_is_told(run, tmp_path):
    log = tmp_path / "log.jsonl"
    records = [{**record, "topic": ""} for record in some_records(250)]
    log.write_text("".join(json.dumps(record) + "\n" for record in records) + "{\n" * 120 + '{"user": "un')
    code, _, said = run("stream", "--from", log, "--to", tmp_path / "out", "--run", "web", "--metrics", "0", *FLAGS)
    assert code == 0, said
    told = " ".join(said.split())
    assert "about 300 read, 0 released, 0 waiting, 200 left out, 100 no records." in told
    assert "the last line of log.jsonl has no line end" in told
    event = next(line for line in said.splitlines() if "metrics_served" in line)
    assert json.loads(event)["port"] > 0
