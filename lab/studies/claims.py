"""The claims of the paper's text, each beside what was measured here.

A claim rests on comparisons. Each is printed with its sign (p, corrected by Holm's method over all
comparisons of the table) and its size (the share of the paper's gain, with its 95 % interval).
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean
from typing import Any

from lab.results import Group, Line
from lab.studies import paper
from lab.studies.report import DASH, Report, report
from lab.studies.significance import (
    Difference,
    by_start,
    difference,
    holm,
    one_sample,
    over_starts,
    printed_chance,
)

ABLATION = (
    "python -m lab study ablation RECIPE --train TRAIN --dev DEV --addsent FILE --addonesent FILE "
    "--out DIR --keep FILE"
)
ATTENTION = "python -m lab study attention --data DEV --with A … --without B … --keep FILE"
RL = "python -m lab study rl --init RUN --train TRAIN --dev DEV --out DIR --keep FILE"

REDUNDANCY = [name for name in paper.TABLE_5 if not name.endswith("*")]
DEFICIENCY = [name for name in paper.TABLE_5 if name.endswith("*")]
OVER_FUSIONNET = "the paper's lead over FusionNet"


@dataclass(frozen=True)
class Comparison:
    """Some trainings less others, in one measure, and what the paper gained."""

    what: str
    study: str
    more: str
    less: str
    gain: float | None
    measure: str = "dev"
    key: str = "f1"


@dataclass(frozen=True)
class Level:
    """What trainings under the paper's own conditions score, less what the paper printed."""

    what: str
    row: str
    measure: str
    printed: float
    study: str = "ablation"
    log: str = "cell"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and what it rests on; the first comparison is the one to read."""

    text: str
    command: str
    comparisons: Sequence[Comparison | Level]
    remark: str = ""


def _gain(first: int, second: int) -> float:
    """The F1 by which one row of the paper's Table 4 is above another."""
    return paper.gain(first, second)[1]


def _log_ratio(names: Sequence[str]) -> float:
    """The mean log ratio of the paper's Table 5, with reattention over without."""
    return fmean(log(paper.TABLE_5[name][1][0] / paper.TABLE_5[name][0][0]) for name in names)


CLAIMS = [
    Claim(
        "Reattention raises EM and F1",
        ABLATION,
        [
            Comparison(
                "F1, after DCRL", "ablation", "dcrl-full", "dcrl-reattention-false", _gain(0, 1)
            ),
            Comparison("F1, after ML", "ablation", "full", "reattention-false", _gain(2, 3)),
            Comparison(
                "EM, after DCRL",
                "ablation",
                "dcrl-full",
                "dcrl-reattention-false",
                paper.gain(0, 1)[0],
                key="exact_match",
            ),
        ],
        "docs/reattention.md has the reason.",
    ),
    Claim(
        "Reattention makes attentions less redundant",
        ATTENTION,
        [
            Comparison(
                "mean log ratio of the four divergences",
                "attention",
                "with",
                "without",
                _log_ratio(REDUNDANCY),
                "redundancy",
            ),
            *(
                Comparison(
                    f"log ratio, {name}", "attention", "with", "without", _log_ratio([name]), name
                )
                for name in REDUNDANCY
            ),
        ],
    ),
    Claim(
        "Reattention makes attentions less deficient",
        ATTENTION,
        [
            Comparison(
                "mean log ratio of the two divergences",
                "attention",
                "with",
                "without",
                _log_ratio(DEFICIENCY),
                "deficiency",
            ),
        ],
        "The paper's true attention is the mean of 12 readers, ours of 2 or 3.",
    ),
    Claim(
        "DCRL beats SCST",
        RL,
        [
            Comparison(
                "each from its own start", "ablation", "dcrl-full", "scst-full", _gain(0, 4)
            ),
            Comparison("several seeds from one start", "rl", "dcrl", "scst", _gain(0, 4)),
        ],
        "SCST is below its start here, so this does not say that DCRL helps.",
    ),
    Claim(
        "DCRL beats maximum likelihood",
        RL,
        [
            Comparison("against ML with the same steps", "rl", "dcrl", "ml", _gain(0, 2)),
            Comparison(
                "the same, each from its own start",
                "ablation",
                "dcrl-full",
                "ml-full",
                _gain(0, 2),
            ),
            Comparison("against ML with fewer steps", "ablation", "dcrl-full", "full", _gain(0, 2)),
        ],
    ),
    Claim(
        "SCST beats maximum likelihood",
        RL,
        [
            Comparison("against ML with fewer steps", "ablation", "scst-full", "full", _gain(4, 2)),
            Comparison("against ML with the same steps", "rl", "scst", "ml", _gain(4, 2)),
            Comparison(
                "the same, each from its own start",
                "ablation",
                "scst-full",
                "ml-full",
                _gain(4, 2),
            ),
        ],
    ),
    Claim(
        "Robustness to adversarial text comes from reattention and DCRL",
        ABLATION,
        [
            Comparison(
                f"AddSent, both less neither, beside {OVER_FUSIONNET}",
                "ablation",
                "dcrl-full",
                "reattention-false",
                7.1,
                "addsent",
            ),
            Comparison(
                f"AddOneSent, both less neither, beside {OVER_FUSIONNET}",
                "ablation",
                "dcrl-full",
                "reattention-false",
                6.3,
                "addonesent",
            ),
        ],
    ),
    Claim(
        "58.5 F1 on AddSent and 67.0 on AddOneSent, from SQuAD 1.1 alone (Table 3)",
        "lab/scripts/cell.sh PACKED OUT 26",
        [
            Level("AddSent after ML, ours less the paper's reinforced", "full", "addsent", 58.5),
            Level("AddOneSent after ML, the same", "full", "addonesent", 67.0),
            Level("AddSent after DCRL, ours less the paper's", "dcrl-full", "addsent", 58.5),
            Level("AddOneSent after DCRL, the same", "dcrl-full", "addonesent", 67.0),
        ],
        "With MiniLM tuned along, SQuAD 1.1 alone gives 51.3 on AddSent at dev F1 85.4 "
        "(log/2026-11-15-results.md).",
    ),
    Claim(
        "86.3 F1 on dev by one reader, from SQuAD 1.1 alone (Table 2)",
        "lab/scripts/cell.sh PACKED OUT 26",
        [
            Level("dev after DCRL, ours less the paper's", "dcrl-full", "dev", 86.3),
            Level("dev after ML, ours less the paper's", "full", "dev", 85.4),
        ],
        "Twelve of ours together have 79.37 / 86.58 after ML, the paper's reinforced twelve "
        "81.2 / 87.9 (log/2026-11-18-cell.md). MiniLM is in the place of ELMo here.",
    ),
    Claim(
        "Projections with ReLU beat the dot product",
        ABLATION,
        [
            Comparison("ReLU less dot", "ablation", "dcrl-full", "dcrl-attention-dot", _gain(0, 5)),
        ],
    ),
    Claim(
        "Subtraction is more effective than multiplication in the fusion",
        ABLATION,
        [
            Comparison(
                "without Mul less without Sub",
                "ablation",
                "dcrl-fusion_mul-false",
                "dcrl-fusion_sub-false",
                _gain(7, 6),
            ),
            Comparison(
                "all less without Sub",
                "ablation",
                "dcrl-full",
                "dcrl-fusion_sub-false",
                _gain(0, 6),
            ),
            Comparison(
                "all less without Mul",
                "ablation",
                "dcrl-full",
                "dcrl-fusion_mul-false",
                _gain(0, 7),
            ),
        ],
    ),
    Claim(
        "The highway-like fusion beats a gate and an MLP",
        ABLATION,
        [
            Comparison(
                "highway less gate", "ablation", "dcrl-full", "dcrl-fusion-gate", _gain(0, 8)
            ),
            Comparison("highway less MLP", "ablation", "dcrl-full", "dcrl-fusion-mlp", _gain(0, 9)),
            Comparison(
                "gate less MLP", "ablation", "dcrl-fusion-gate", "dcrl-fusion-mlp", _gain(8, 9)
            ),
        ],
    ),
    Claim(
        "Three blocks are enough: two lose a little, five lose much",
        ABLATION,
        [
            Comparison("3 blocks less 5", "ablation", "dcrl-full", "dcrl-blocks-5", _gain(0, 12)),
            Comparison("3 blocks less 2", "ablation", "dcrl-full", "dcrl-blocks-2", _gain(0, 10)),
            Comparison("3 blocks less 4", "ablation", "dcrl-full", "dcrl-blocks-4", _gain(0, 11)),
        ],
    ),
]


def claims_table(known: Sequence[Group]) -> Report:
    """Every claim, and below it the comparisons that it rests on."""
    parts = [(claim, part, _measure(part, known)) for claim in CLAIMS for part in claim.comparisons]
    chances = [None if found is None else found.p for _, _, (found, _) in parts]
    corrected = holm(chances)

    records: list[dict[str, Any]] = []
    data: dict[str, Any] = {}
    for (claim, part, (found, logs)), p in zip(parts, corrected, strict=True):
        record = _record(part, found, logs, p)
        if claim.text not in data:
            number = len(data) + 1
            data[claim.text] = {"words": record["words"], "parts": []}
            records.append(_heading(number, claim, record["words"]))
        data[claim.text]["parts"].append(record)
        records.append({**record, "what": f"· {record['what']}"})
    tested = sum(p is not None for p in chances)
    return report("claims", records, data, tested=tested)


def _heading(number: int, claim: Claim, words: str) -> dict[str, Any]:
    """The row of a claim: its sentence, and the words of its first comparison."""
    blank = dict.fromkeys(
        ("ours", "paper", "share", "chance", "corrected", "of_paper", "power", "count"), ""
    )
    remark = f"{claim.remark} " if claim.remark else ""
    return {
        **blank,
        "what": f"{number}. {claim.text}",
        "words": words,
        "log": f"{remark}{claim.command}",
    }


def _record(
    part: Comparison | Level,
    found: Difference | None,
    logs: Sequence[str],
    p: float | None,
) -> dict[str, Any]:
    """A comparison as a row."""
    papers = part.gain if isinstance(part, Comparison) else None
    record: dict[str, Any] = {"what": part.what, "paper": papers, "log": ", ".join(logs) or DASH}
    if found is None:
        return {**record, "ours": "not measured", "words": "not measured", "count": 0}
    share = found.share(papers)
    return {
        **record,
        "ours": found.ours,
        "share": f"{share[0]:.0%} ({share[1]:.0%} to {share[2]:.0%})" if share else None,
        "chance": found.chance,
        "corrected": printed_chance(p),
        "of_paper": printed_chance(found.chance_of(papers)) if papers else None,
        "power": found.power(papers) if papers else None,
        "words": found.words(papers, p),
        "count": found.count,
    }


def _measure(
    part: Comparison | Level,
    known: Sequence[Group],
) -> tuple[Difference | None, list[str]]:
    """A comparison over all results of its study, and the logs they are in."""
    groups = [group for group in known if group.study == part.study]
    if isinstance(part, Level):
        return _level(part, groups)
    pairs: list[tuple[Hashable, float]] = []
    unpaired: list[tuple[Mapping[Any, float], Mapping[Any, float]]] = []
    logs: list[str] = []
    for group in groups:
        more = measured(group.lines, part.more, part.measure, part.key)
        less = measured(group.lines, part.less, part.measure, part.key)
        if not more or not less:
            continue
        logs.append(group.log)
        shared = sorted(more.keys() & less.keys())
        if not shared:
            unpaired.append((more, less))
        for seed in shared:
            # All seeds of `study rl` share one start; elsewhere each seed has a start of its own.
            start: Hashable = group.log if part.study == "rl" else (group.log, seed)
            pairs.append((start, more[seed] - less[seed]))
    if pairs:
        return over_starts(by_start(pairs)), logs
    if unpaired:
        return difference(*unpaired[0]), logs[:1]
    return None, []


def _level(part: Level, groups: Sequence[Group]) -> tuple[Difference | None, list[str]]:
    """What was scored, less what the paper printed."""
    gaps: list[float] = []
    logs: list[str] = []
    for group in groups:
        if group.log != part.log:
            continue
        scores = measured(group.lines, part.row, part.measure)
        if scores:
            logs.append(group.log)
            gaps += [score - part.printed for score in scores.values()]
    return (one_sample(gaps), logs) if gaps else (None, [])


def measured(
    lines: Sequence[Line],
    row: str,
    measure: str = "dev",
    key: str = "f1",
) -> dict[Any, float]:
    """A measure of one kind of training by seed, or the log of a divergence by reader."""
    chosen = [line for line in lines if line["row"] == row]
    if measure in ("redundancy", "deficiency") or measure in paper.TABLE_5:
        return _log_divergences(chosen, measure)
    return {line["seed"]: line[measure][key] for line in chosen if line.get(measure)}


def _log_divergences(lines: Sequence[Line], measure: str) -> dict[Any, float]:
    """The mean log divergence of each reader; of each ensemble for deficiency.

    Readers of one ensemble are measured against the mean of all of them, so they count as one.
    """
    names = {"redundancy": REDUNDANCY, "deficiency": DEFICIENCY}.get(measure, [measure])
    found: dict[Any, float] = {}
    for place, line in enumerate(lines):
        if not all(name in line["rows"] for name in names):
            continue
        each = [line["rows"][name]["readers"] for name in names]
        values = [fmean(log(row[k]) for row in each) for k in range(len(line["seeds"]))]
        if measure == "deficiency":
            found[place] = fmean(values)
        else:
            found |= {
                (place, seed): value for seed, value in zip(line["seeds"], values, strict=True)
            }
    return found
