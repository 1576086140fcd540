"""The paper's five main claims, judged by kept lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rmreader.errors import UserError
from rmreader.scoring.significance import FAILS, HOLDS, OPEN, Difference, difference, verdict
from rmreader.studies import paper
from rmreader.studies.kept import Line, read
from rmreader.studies.report import DASH, WORDS, Report, report
from rmreader.studies.tables import by_seed


class Group(NamedTuple):
    """Lines that may be compared: of one file, study and setting."""

    log: str
    study: str
    lines: list[Line]


class Part(NamedTuple):
    """One comparison that a claim rests on, ours and the paper's."""

    what: str
    log: str
    found: Difference | None
    papers: float


def groups(folder: Path) -> list[Group]:
    """The kept lines in a folder's files."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give the one with the kept lines, as log/claims.")
    found: dict[tuple[str, str, str], list[Line]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in read(path):
            found.setdefault((path.stem, line["study"], str(line.get("setting"))), []).append(line)
    return [Group(log, study, lines) for (log, study, _), lines in found.items()]


def judge(known: Sequence[Group]) -> dict[str, list[Part]]:
    """Every comparison that there is, by claim; one that nothing was measured for is there once, empty."""
    judged = {}
    for claim in WORDS["claims"]:
        parts = []
        for what, study, *slugs, measure, first, second in claim["parts"]:
            chosen = [one for one in known if one.study == study]
            sides = [(one.log, [by_seed(one.lines, slug, measure) for slug in slugs]) for one in chosen]
            parts += _parts(what, sides, paper.gain(first, second)[1])
        judged[claim["claim"]] = parts or _attention([one for one in known if one.study == "attention"])
    return judged


def _parts(what: str, sides: Sequence[tuple[str, Sequence[Mapping[Any, float]]]], papers: float) -> list[Part]:
    found = [Part(what, log, difference(*both), papers) for log, both in sides if all(both)]
    return found or [Part(what, DASH, None, papers)]


def _attention(known: Sequence[Group]) -> list[Part]:
    """Redundancy (a higher divergence between rounds) and deficiency (a lower one from the mean), reader by reader."""
    parts = []
    for what, star, sign in (("less redundant", False, 1), ("less deficient", True, -1)):
        names = [name for name in paper.TABLE_5 if name.endswith("*") == star]
        papers = sign * fmean(paper.TABLE_5[name][1][0] - paper.TABLE_5[name][0][0] for name in names)
        sides = [(one.log, [_readers(one.lines, kind, names, sign) for kind in ("with", "without")]) for one in known]
        parts += _parts(what, sides, papers)
    return parts


def _readers(lines: Sequence[Line], kind: str, names: Sequence[str], sign: int) -> dict[Any, float]:
    """Each reader's mean over rows, by ensemble and seed."""
    found = {}
    for place, line in enumerate(line for line in lines if line["row"] == kind):
        rows = [line["rows"][name]["readers"] for name in names if name in line["rows"]]
        for k, seed in enumerate(line["seeds"] if rows else ()):
            key = (place, seed) if len(set(line["seeds"])) == len(line["seeds"]) else (kind, place, k)
            found[key] = sign * fmean(values[k] for values in rows)
    return found


def together(parts: Sequence[Part]) -> str:
    """A claim holds where all that it rests on holds, and does not where any of it does not."""
    verdicts = {verdict(part.found, part.papers) for part in parts}
    return HOLDS if verdicts == {HOLDS} else FAILS if FAILS in verdicts else OPEN


def claims_table(judged: Mapping[str, Sequence[Part]]) -> Report:
    """Each claim with its verdict, and below it what it rests on."""
    records: list[dict[str, Any]] = []
    data: dict[str, Any] = {}
    for claim in WORDS["claims"]:
        parts, blank = judged[claim["claim"]], dict.fromkeys(("ours", "paper", "chance", "count"), "")
        records.append({**blank, "what": claim["claim"], "verdict": together(parts), "log": claim["command"]})
        told = []
        for what, log, found, papers in parts:
            about = {"verdict": verdict(found, papers), "ours": found.ours, "chance": found.chance} if found else {}
            told.append({"what": what, "log": log, "ours": "not measured", "paper": papers, **about})
            records.append({**told[-1], "what": f"· {what}", "count": found.count if found else 0})
        data[claim["claim"]] = {"verdict": together(parts), "parts": told}
    return report("claims", records, data)
