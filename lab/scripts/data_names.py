"""What manifests and cards call the files that readers are measured on."""

from pathlib import Path

NAMES = {
    "dev-v1.1": "SQuAD 1.1 dev",
    "dev-v2.0": "SQuAD 2.0 dev",
    "dev-v2.0-rebuilt": "SQuAD 2.0 dev",
    "addsent": "AddSent",
    "addonesent": "AddOneSent",
    "held-squad": "SQuAD 2.0, nine articles held out",
    "held-everyday": "everyday texts held out",
    "test-everyday": "everyday texts to test",
}


def called(data: Path) -> str:
    """The name of a data set in manifest and card."""
    stem = data.name.split(".json")[0]
    return NAMES.get(stem, stem)
