"""What is handed to clusters fits the command line, the server and each other, and asks for no privilege."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from support.processes import started

from rmreader.cli import app
from rmreader.core.version import __version__

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CONTAINER = (DEPLOY / "Containerfile").read_text(encoding="utf-8")


def documents(name: str) -> dict[str, Any]:
    found = list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))
    assert all({"apiVersion", "kind", "metadata", "spec"} == set(one) for one in found)
    return {one["kind"]: one for one in found}


def instructions() -> list[tuple[str, str]]:
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", CONTAINER, flags=re.MULTILINE))
    return [(word, rest) for word, _, rest in (line.strip().partition(" ") for line in lines.splitlines()) if word]


def parses(*words: str) -> None:
    """The command line takes these words."""
    command: Any = typer.main.get_command(app)
    verb, *rest = words
    context = command.commands[verb].make_context(verb, list(rest))
    if verb == "serve":
        from rmreader.cli.serve import setting_words
        from rmreader.server.settings import settings_from_words

        settings_from_words(setting_words(context.params["settings"] or ()), "server setting")


@pytest.mark.parametrize(("name", "kind"), [("serve.yaml", "Deployment"), ("predict.yaml", "Job")])
def test_pods_have_no_privilege_and_limits(name: str, kind: str) -> None:
    pod = documents(name)[kind]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    own = container["securityContext"]
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert {"cpu", "memory"} == set(container["resources"]["limits"]) == set(container["resources"]["requests"])
    assert container["image"] == f"rmreader:{__version__}"
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert {volume["name"] for volume in pod["volumes"]} == set(mounted)
    assert mounted["tmp"] == "/tmp"
    parses(*(word.replace("$(JOB_COMPLETION_INDEX)", "0") for word in container["args"]))


def test_replicas_follow_a_metric_that_the_server_has() -> None:
    pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    from rmreader.server.metrics import Metrics

    served = documents("serve.yaml")
    scaler, deployment = served["HorizontalPodAutoscaler"]["spec"], served["Deployment"]
    (metric,) = scaler["metrics"]
    page = Metrics(lambda: 3.0).page().decode()
    assert f"\n{metric['pods']['metric']['name']} 3.0\n" in page
    assert scaler["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert 1 < scaler["minReplicas"] < scaler["maxReplicas"]
    assert "replicas" not in deployment["spec"]  # which would undo the autoscaler's at every apply
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        served["Service"]["spec"]["selector"],
        served["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()


def test_a_replica_is_drained_before_it_is_ended() -> None:
    from rmreader.server.settings import Settings

    pod = documents("serve.yaml")["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    words = container["args"]
    delay = float(words[words.index("--drain-delay") + 1])
    polled = container["readinessProbe"]["periodSeconds"] * container["readinessProbe"]["failureThreshold"]
    assert polled < delay
    assert delay + Settings().deadline + 2 < pod["terminationGracePeriodSeconds"]
    assert {container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")} == {
        "/readyz",
        "/livez",
    }
    port = container["ports"][0]
    assert port["containerPort"] == Settings().port


def test_the_parts_of_a_job_are_all_made() -> None:
    spec = documents("predict.yaml")["Job"]["spec"]
    words = spec["template"]["spec"]["containers"][0]["args"]
    assert spec["completionMode"] == "Indexed"
    assert words[words.index("--shard") + 1] == f"$(JOB_COMPLETION_INDEX)/{spec['completions']}"


def test_the_image_is_small_without_root_and_has_a_health_check() -> None:
    found = instructions()
    words = [word for word, _ in found]
    last = words[len(words) - 1 - words[::-1].index("FROM") :]
    assert set(last) == {"FROM", "COPY", "ENV", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}  # no RUN
    of = dict(found)
    assert re.fullmatch(r"\d+:\d+", of["USER"])  # by number, as runAsNonRoot can check
    assert not of["USER"].startswith("0")
    images = {rest.split()[0] for word, rest in found if word == "FROM"}
    assert len(images) == 1  # a virtual environment needs the very same Python
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", images.pop())
    assert json.loads(of["ENTRYPOINT"]) == ["rmreader"]
    parses(*json.loads(of["CMD"]))
    for word, rest in found:
        if word == "RUN":
            assert "--no-cache-dir" in rest or "rm -rf /var/lib/apt/lists" in rest
            assert shlex.split(rest)
        if word == "COPY" and "--from" not in rest:
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources)


def test_the_health_check_is_of_the_server() -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    python, *rest = json.loads(dict(instructions())["HEALTHCHECK"].partition("CMD ")[2])
    assert python == "python"
    serve = [sys.executable, "-m", "rmreader", "serve", "--port", "0"]
    with started(serve, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        url = next(json.loads(line)["url"] for line in server.stderr if '"serving"' in line)
        check = [sys.executable, *(word.replace("http://127.0.0.1:8000", url) for word in rest)]
        assert check[1:] != rest
        healthy = subprocess.run(check, check=False, capture_output=True).returncode
        server.terminate()
        assert (healthy, server.wait(timeout=60)) == (0, 0)
    assert subprocess.run(check, check=False, capture_output=True).returncode == 1


def test_the_build_sees_what_it_copies_and_no_more() -> None:
    """The ignore file: the last pattern that fits decides, as builders have it."""
    patterns = (DEPLOY / "Containerfile.dockerignore").read_text(encoding="utf-8").split()

    def seen(path: str) -> bool:
        above = [path, *(parent.as_posix() for parent in Path(path).parents)][:-1]
        fits = [
            one.startswith("!")
            for one in patterns
            for pattern in [one.removeprefix("!")]
            if any(fnmatch(f"/{at}" if pattern.startswith("**") else at, pattern) for at in above)
        ]
        return not fits or fits[-1]

    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    names = {name for words in copied for name in words}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert names >= {"pyproject.toml", "setup.py", "release", "src", "README.md", *project["license-files"]}
    assert all(map(seen, names))
    made = {".so", ".pyc"}
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and ".egg-info" not in str(path)]
    assert {path.suffix for path in files} >= {".py", ".c", ".safetensors", ".yaml", ".html"}
    assert all(seen(path.relative_to(ROOT).as_posix()) == (path.suffix not in made) for path in files)
    assert not any(map(seen, (".git/config", ".venv/bin/python", "tests/conftest.py", "deploy/serve.yaml", "src/a.so")))
