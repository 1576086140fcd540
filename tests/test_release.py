"""A release: the tag's version, the same bytes from the same commit, a list of parts, no limits on what it needs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from release.description import description
from release.version import NUMBER, number, version
from rmreader.core.version import __version__

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WHO = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", folder, *WHO, *words], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of one commit."""
    (tmp_path / NUMBER).parent.mkdir(parents=True)
    shutil.copy(ROOT / NUMBER, tmp_path / NUMBER)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    return tmp_path


def test_the_tag_is_the_version(checkout: Path) -> None:
    assert version(checkout) == __version__  # there is no tag yet
    git(checkout, "tag", "v7.1.9")
    assert version(checkout) == "7.1.9"
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "two")
    assert re.fullmatch(r"7\.1\.10\.dev1\+g[0-9a-f]+", version(checkout))
    git(checkout, "tag", "v8.0.0rc1")
    assert version(checkout) == "8.0.0rc1"
    with (checkout / NUMBER).open("a") as file:
        file.write("# changed\n")
    assert re.fullmatch(r"8\.0\.0\.dev0\+g[0-9a-f]+\.changed", version(checkout))


def test_without_git_the_number_in_the_code_is_the_version(checkout: Path) -> None:
    git(checkout, "tag", "v7.1.9")
    shutil.rmtree(checkout / ".git")
    assert version(checkout) == __version__ == number((ROOT / NUMBER).read_text(encoding="utf-8"))
    (checkout / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: rmreader\nVersion: 6.0.1\n")
    assert version(checkout) == "6.0.1"


def test_an_archive_in_a_stranger_s_repository_has_no_tag_of_it(checkout: Path) -> None:
    git(checkout, "tag", "v7.1.9")
    inner = checkout / "unpacked"
    shutil.copytree(checkout / "src", inner / "src")
    assert version(inner) == __version__


def hasty_compiler(folder: Path) -> dict[str, str]:
    """What makes setup.py's compiler leave the code as it is: to optimise it takes most of the time of a build, and
    where, when and by whom it is built shows without. A release is built twice as it ships (release.yml)."""
    name = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if name is None:
        return {}
    script = folder / "hasty-cc"
    script.write_text(f'#!/bin/sh\nexec {name} "$@" -O0\n')
    script.chmod(0o755)
    return {"CC": str(script)}


def build(checkout: Path, out: Path, mask: int) -> dict[str, Path]:
    """Source archive, and from it the wheel, by the setuptools that is installed."""
    out.mkdir()
    environment = {**os.environ, **hasty_compiler(out), "PYTHONPATH": ""}

    def call(step: str, place: Path) -> Path:
        code = f"from setuptools import build_meta as b; print(b.{step}({str(out)!r}))"
        done = subprocess.run(
            [sys.executable, "-c", f"import os; os.umask({mask}); {code}"],
            cwd=place, capture_output=True, text=True, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return out / done.stdout.splitlines()[-1]

    source = call("build_sdist", checkout)
    with tarfile.open(source) as archive:
        archive.extractall(out / "unpacked", filter="data")
    (place,) = (out / "unpacked").iterdir()
    return {"source": source, "wheel": call("build_wheel", place)}


@pytest.mark.slow
def test_one_commit_gives_the_same_bytes_wherever_it_is_built(tmp_path: Path) -> None:
    if int(pytest.importorskip("setuptools", reason="setuptools is absent").__version__.split(".")[0]) < 77:
        pytest.skip("setuptools is older than 77")
    built = []
    for name, mask in (("one", 0o022), ("two", 0o077)):
        # Other weights than those that ship, which are large and say nothing here.
        copy = tmp_path / name
        ignore = shutil.ignore_patterns(
            *(".git", ".venv", ".versions", ".hypothesis", "*_cache", "__pycache__", "build", "dist"),
            *("tests", "lab", "*.safetensors", "*.so"),
        )
        shutil.copytree(ROOT, copy, ignore=ignore)
        (copy / "src/rmreader/readers/shipped/small/weights.safetensors").write_bytes(b"weights")
        for path in copy.rglob("*"):
            if path.is_file():
                os.utime(path, (mask, mask))
        git(copy, "init", "--quiet")
        git(copy, "add", ".")
        date = "2026-01-02T03:04:05Z"
        environment = {**os.environ, "GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date}
        commit = ["git", "-C", copy, *WHO, "commit", "--quiet", "--message", "all"]
        subprocess.run(commit, check=True, env=environment)
        git(copy, "tag", "v9.9.9")
        built.append(build(copy, tmp_path / f"{name}-built", mask))
    for kind in ("source", "wheel"):
        assert built[0][kind].name == built[1][kind].name
        assert built[0][kind].read_bytes() == built[1][kind].read_bytes()
    wheel = built[0]["wheel"]
    assert re.fullmatch(r"rmreader-9\.9\.9-py3-none-\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert not [name for name in names if name.startswith(("lab/", "tests/", "release/")) or name.endswith(".pyc")]
        said = archive.read("rmreader/core/version.py").decode()
        assert number(said) == "9.9.9"
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        assert "](https://github.com/rmreader/rmreader/blob/v9.9.9/docs/install.md)" in archive.read(metadata).decode()
        (listed,) = [name for name in names if "/sboms/" in name]
        tree = json.loads(archive.read(listed))
        assert tree["metadata"]["component"]["version"] == number(said)
        parts = {part["name"]: part for part in tree["components"]}
        hashed = {name: part["hashes"][0]["content"] for name, part in parts.items() if "hashes" in part}
        assert "rmreader/readers/shipped/small/weights.safetensors" in hashed
        for name, digest in hashed.items():
            assert hashlib.sha256(archive.read(name)).hexdigest() == digest
    needed = {name for name, part in parts.items() if part.get("scope") == "required"}
    assert needed == {re.split("[<>=]", line)[0].lower() for line in PROJECT["dependencies"]}


def test_links_of_the_readme_lead_somewhere_on_a_registry_too() -> None:
    shown = description((ROOT / "README.md").read_text(encoding="utf-8"), "7.1.9")
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", shown)
    assert len(links) > 50
    for picture, link in links:
        start = "https://raw.githubusercontent.com/" if picture else "https://github.com/"
        blob = "" if picture else "blob/"
        whole = re.fullmatch(rf"{start}rmreader/rmreader/{blob}v7\.1\.9/([^#]+)(#.*)?", link)
        assert whole, link
        assert (ROOT / whole[1]).exists(), link


@pytest.mark.parametrize(
    ("version", "place"), [("1.2.3", "v1.2.3"), ("1.2.3rc1", "v1.2.3rc1"), ("1.2.4.dev5+g1a2b3c4", "main")]
)
def test_a_link_of_the_readme_is_to_the_version_it_came_with(version: str, place: str) -> None:
    readme = "[a](docs/a.md#b), ![c](docs/c.png), [d](https://example.org/), [e](#f)"
    assert description(readme, version) == (
        f"[a](https://github.com/rmreader/rmreader/blob/{place}/docs/a.md#b), "
        f"![c](https://raw.githubusercontent.com/rmreader/rmreader/{place}/docs/c.png), "
        "[d](https://example.org/), [e](#f)"
    )


def test_the_readme_of_a_release_installs_it_by_its_name() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = description(readme, "7.1.9")
    assert re.search(r"^pip install rmreader +# ", shown, re.MULTILINE)
    assert "pip install 'rmreader[train,serve]'" in shown
    assert "pip install ." not in shown
    assert "pip install '." not in shown
    assert "pip install ." in description(readme, "7.1.10.dev1+g1a2b3c4")  # no registry has that one


def test_no_requirement_has_an_upper_limit() -> None:
    lines = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
    assert [line for line in lines if re.search("<|==|~=", line.partition(";")[0])] == []


def test_what_people_look_for_is_there() -> None:
    assert {"Homepage", "Documentation", "Issues", "Changelog"} <= set(PROJECT["urls"])
    for name in ("CHANGELOG.md", "CITATION.cff", "SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md"):
        assert (ROOT / name).is_file(), name
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(__version__)} \(\d{{4}}-\d\d-\d\d\)$", changes, re.MULTILINE)
    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
