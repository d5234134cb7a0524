"""What Ray is told to start for a study on one machine."""

import importlib
import os
import sys

from ray._private import node, parameter, ray_constants, services

import rayfed.algorithms.fedavg  # noqa: F401
from rayfed.executors.warm import agent, idle, worker
from rayfed.runs.ray import known as ray_known
from rayfed.runs.ray import lean as ray_lean


def parts():
    """Return what is replaced for the time of a start."""
    command = services._build_python_executable_command_memory_profileable
    uv = ray_constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV
    return command, parameter.RayParams, node.Node.start_api_server, uv, dict(os.environ)


def test_what_a_study_does_not_need_is_left_out_and_all_is_as_before_afterwards(tmp_path):
    before = parts()
    with ray_lean.lean(tmp_path):
        command = services._build_python_executable_command_memory_profileable
        kinds = ("PROCESS_TYPE_DASHBOARD_AGENT", "PROCESS_TYPE_RUNTIME_ENV_AGENT")
        started = [command(getattr(ray_constants, kind), str(tmp_path)) for kind in kinds]
        assert started == [[sys.executable, agent.__file__], [sys.executable, idle.__file__]]
        assert command("raylet_monitor", str(tmp_path)) == before[0]("raylet_monitor", "")
        given = parameter.RayParams(num_cpus=3)
        assert (given.num_cpus, given.no_monitor, given.include_log_monitor) == (3, True, False)
        assert given.setup_worker_path == worker.__file__
        assert node.Node.start_api_server(None, include_dashboard=False) is None
        assert not ray_constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV
        assert os.environ[agent.SOCKET] == str(tmp_path / "workers")
        assert "rayfed.algorithms.fedavg" in os.environ[agent.MODULES].split(",")
    assert parts() == before


def test_with_another_version_nothing_private_is_touched(monkeypatch):
    """Its private parts may have other names, or be gone."""
    monkeypatch.setattr(ray_known, "version", lambda _: "9.0.0")
    for name in ("node", "parameter", "ray_constants", "services"):
        monkeypatch.setitem(sys.modules, f"ray._private.{name}", None)
        monkeypatch.delattr(f"ray._private.{name}")
    monkeypatch.delitem(sys.modules, "rayfed.runs.ray.lean")
    monkeypatch.setattr("rayfed.runs.ray.lean", ray_lean)  # which stands there again afterwards
    importlib.import_module("rayfed.runs.ray.lean")
    assert not ray_known.is_known()
