"""The list of a wheel's parts (an SBOM in CycloneDX's form): what is in it, and what it needs."""

import datetime
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAME = "rmreader.cdx.json"
_TRAINED = "CC-BY-SA-4.0"
_SOFTWARE = "Apache-2.0"
_MINILM = {
    "type": "machine-learning-model",
    "name": "all-MiniLM-L6-v2",
    "group": "sentence-transformers",
    "purl": "pkg:huggingface/sentence-transformers/all-MiniLM-L6-v2",
    "licenses": [{"license": {"id": _SOFTWARE}}],
}
_GTE = {
    "type": "machine-learning-model",
    "name": "gte-small",
    "group": "thenlper",
    "purl": "pkg:huggingface/thenlper/gte-small",
    "licenses": [{"license": {"id": "MIT"}}],
}

_ANCESTORS = {"base": _GTE, "vectors": _MINILM, "retrieval": _MINILM}
"""Whose weights each folder's began as."""


def parts(project: Path, package: Path, version: str, moment: int) -> str:
    """Return the list for the wheel whose package lies in ``package``, as JSON."""
    about = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    itself = f"pkg:pypi/rmreader@{version}"
    components = [*_in_it(package), *_needed(about)]
    tree = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(moment, datetime.UTC).isoformat(),
            "component": {
                "type": "library",
                "bom-ref": itself,
                "name": "rmreader",
                "version": version,
                "description": about["description"],
                "licenses": [{"expression": about["license"]}],
                "purl": itself,
            },
        },
        "components": components,
        "dependencies": [
            {"ref": itself, "dependsOn": [component["bom-ref"] for component in components]}
        ],
    }
    return json.dumps(tree, indent=1) + "\n"


def _in_it(package: Path) -> Iterator[dict[str, Any]]:
    """Yield what is in the wheel and is no Python code: trained weights and compiled code."""
    for path in sorted(package.rglob("*.safetensors")):
        component = _file(package, path, "machine-learning-model", _TRAINED)
        if path.parent.name in _ANCESTORS:
            component["pedigree"] = {"ancestors": [_ANCESTORS[path.parent.name]]}
        yield component
    for path in sorted(package.rglob("*.so")):
        yield _file(package, path, "file", _SOFTWARE)


def _file(package: Path, path: Path, kind: str, license: str) -> dict[str, Any]:
    name = path.relative_to(package.parent).as_posix()
    return {
        "type": kind,
        "bom-ref": name,
        "name": name,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
        "licenses": [{"license": {"id": license}}],
    }


def _needed(about: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the libraries that pip installs beside it; those of an extra are optional."""
    wanted = {_library(line): (line, "required") for line in about["dependencies"]}
    for extra, lines in about["optional-dependencies"].items():
        if extra == "dev":
            continue
        for line in lines:
            if not line.startswith("rmreader["):
                wanted.setdefault(_library(line), (line, "optional"))
    for name, (line, scope) in sorted(wanted.items()):
        yield {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}",
            "name": name,
            "scope": scope,
            "purl": f"pkg:pypi/{name}",
            "properties": [{"name": "rmreader:requirement", "value": line}],
        }


def _library(requirement: str) -> str:
    name = re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()
