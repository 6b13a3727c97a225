"""What lies in deploy/ fits the program."""

import configparser
import shlex
from pathlib import Path

from queryveil.live.config import read_config, settings_from

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_example_settings_are_settings():
    assert settings_from(read_config(DEPLOY / "live.toml")).mechanism.k == 10


def test_the_systemd_unit_starts_the_command_and_stops_it_gently():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "queryveil-stream.service")
    service = unit["Service"]
    assert shlex.split(service["ExecStart"])[1:] == ["stream", "--config", "/etc/queryveil/live.toml"]
    assert service["KillSignal"] == "SIGTERM"
    assert service["RestartPreventExitStatus"] == "2 3"


def test_the_container_asks_the_health_endpoint_of_the_example():
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    port = settings_from(read_config(DEPLOY / "live.toml")).metrics
    assert f"127.0.0.1:{port}/health" in text
    assert '["queryveil", "stream", "--config", "/etc/queryveil/live.toml"]' in text


def test_the_container_gets_the_very_packages_that_are_tested():
    def pinned(path):
        return set(path.read_text(encoding="utf-8").replace("\\\n", "").splitlines())

    inside = pinned(DEPLOY / "requirements.lock")
    assert inside < pinned(DEPLOY.parent / "requirements.lock")
    assert {"redis", "nats-py", "confluent-kafka"} < {line.split("==")[0] for line in inside}
