"""How each table looks: its title, its columns, what is noted below it and what is drawn of it.

``{names}`` in a text are filled in when the table is made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column: its title, what of a record it shows, and how a number is written."""

    title: str
    key: str
    form: str = ".2f"


@dataclass(frozen=True)
class Bars:
    """A drawing: the label of its axis, and by side what of a record its bars show."""

    label: str
    sides: Mapping[str, str]


@dataclass(frozen=True)
class Layout:
    """A table. Of several drawings the first is made of which the records have something."""

    title: str
    columns: Sequence[Column]
    notes: Sequence[str] = ()
    bars: Sequence[Bars] = ()


# Trainings of one recipe, compared with the first row.
SCORES = [
    Column("configuration", "name"),
    Column("EM", "exact_match"),
    Column("F1", "f1"),
    Column("ΔEM", "gain_exact_match", "+.2f"),
    Column("ΔF1", "gain_f1", "+.2f"),
    Column("95 % of ΔF1", "interval"),
    Column("chance", "chance"),
    Column("in words", "words"),
    Column("paper EM", "paper_exact_match", ".1f"),
    Column("paper F1", "paper_f1", ".1f"),
    Column("paper ΔEM", "paper_gain_exact_match", "+.1f"),
    Column("paper ΔF1", "paper_gain_f1", "+.1f"),
    Column("suppressed", "suppressed", ".2%"),
    Column("seeds", "count", "d"),
]
GAINS = [
    Bars("ΔF1", {"ours": "gain_f1", "paper": "paper_gain_f1"}),
]
OVER_SEEDS = (
    "Ours on dev, means over seeds ± standard deviation; Δ is to the first row, tested over seeds "
    "by Student's t."
)

LAYOUTS = {
    "ablation": Layout(
        "Table 4: ablations",
        SCORES,
        notes=[
            OVER_SEEDS,
        ],
        bars=GAINS,
    ),
    "ablation-ml": Layout(
        "Table 4: ablations, after maximum likelihood alone",
        SCORES,
        notes=[
            OVER_SEEDS,
            (
                "After maximum likelihood alone. The paper has rows 5 to 12 after DCRL only; their"
                " Δ is to its row 0."
            ),
        ],
        bars=GAINS,
    ),
    "rounds": Layout(
        "Table 1: alignment architectures, trained by maximum likelihood",
        SCORES,
        notes=[
            OVER_SEEDS,
            (
                "The paper counts rounds of interactive and self alignment and has no scores: "
                "{counts}. All are trained as settings of our network but 3 + 1 rounds "
                "(FusionNet)."
            ),
        ],
        bars=GAINS,
    ),
    "rl": Layout(
        "Reinforcement after maximum likelihood, on dev",
        SCORES,
        notes=[
            (
                "Means over seeds ± standard deviation; Δ is the gain over the starting network. "
                "'suppressed' is the share of questions whose true start or end a training step "
                "pushed down (the paper's convergence suppression)."
            ),
        ],
    ),
    "squad": Layout(
        "Table 2: SQuAD",
        [
            Column("model", "name"),
            Column("dev EM", "dev_exact_match"),
            Column("dev F1", "dev_f1"),
            Column("test EM", "test_exact_match", ".1f"),
            Column("test F1", "test_f1", ".1f"),
        ],
        notes=[
            (
                "Rows in [brackets] are ours. The hidden test set is not at hand, so only the "
                "paper has it."
            ),
        ],
    ),
    "adversarial": Layout(
        "Table 3: adversarial SQuAD",
        [
            Column("model", "name"),
            Column("AddSent EM", "addsent_exact_match"),
            Column("AddSent F1", "addsent_f1"),
            Column("AddOneSent EM", "addonesent_exact_match"),
            Column("AddOneSent F1", "addonesent_f1"),
        ],
        notes=[
            "Rows in [brackets] are ours; * is an ensemble.",
            "F1 on the same questions unattacked: {unattacked}.",
        ],
    ),
    "attention": Layout(
        "Table 5: KL divergences of attentions",
        [
            Column("KL divergence", "name"),
            Column("− reattention", "without", ".3f"),
            Column("+ reattention", "with", ".3f"),
            Column("paper −", "paper_without", ".3f"),
            Column("paper +", "paper_with", ".3f"),
        ],
        notes=[
            (
                "X1 to X2 is D(softmax(X1) ‖ softmax(X2)) of adjacent blocks, higher is less "
                "redundant; E2 to E2* is D(mean attention of an ensemble's readers ‖ a reader's), "
                "lower is less deficient, and needs two readers."
            ),
            (
                "The mean over a passage's words and over an ensemble's readers; ± its standard "
                "deviation over {questions} questions, and in brackets that of the mean over "
                "ensembles, where there are several."
            ),
        ],
        bars=[
            Bars(
                "KL divergence",
                {
                    "without": "without",
                    "without, paper": "paper_without",
                    "with": "with",
                    "with, paper": "paper_with",
                },
            ),
        ],
    ),
    "reattention": Layout(
        "Reattention in trained readers: every γ set to {gamma}",
        [
            Column("reader", "name"),
            Column("γ", "gammas"),
            Column("overlap", "overlap"),
            Column("range of γ·overlap, of the logits'", "share"),
            Column("attention moved", "moved"),
            Column("entropy of B1, of its maximum", "entropy", ".1%"),
            Column("EM / F1 as it is", "as_is"),
            Column("with γ = {gamma}", "changed_to"),
            Column("answers that change", "answers"),
            Column("KL with γ = {gamma}, and what γ adds to it", "apart"),
        ],
        notes=[
            (
                "Ranges go over E and B of the rounds after the first; each value is a mean over "
                "the words of a passage and over questions. Read in float by the network itself. "
                "KL is that of Table 5 within one network, ± the standard error over questions."
            ),
        ],
    ),
    "breakdown": Layout(
        "Where readers are right: F1 by group of questions",
        [
            Column("questions", "name"),
            Column("count", "count", ",d"),
            Column("F1", "f1"),
            Column("reattention gives", "reattention", "+.2f"),
            Column("95 % of it", "reattention_interval"),
            Column("DCRL gives", "dcrl", "+.2f"),
            Column("95 % of that", "dcrl_interval"),
        ],
        notes=[
            (
                "F1 of {what}, the mean over {count} ± standard deviation. The last columns are "
                "differences between trainings that are the same but for reattention or DCRL, with"
                " the 95 % interval over seeds (Student's t, paired)."
            ),
            (
                "Twins are the attacked questions of AddSent, beside themselves without the "
                "planted sentence; right is an F1 of one half or more; the column F1 has the share"
                " of them in percent."
            ),
        ],
        bars=[
            Bars(
                "ΔF1; of twins, difference of the shares in percent",
                {"reattention gives": "reattention", "DCRL gives": "dcrl"},
            ),
            Bars("F1; of twins, their share", {"F1": "f1"}),
        ],
    ),
    "failures": Layout(
        "What no reader gets right: {what}",
        [
            Column("type", "type"),
            Column("question", "question"),
            Column("answer of the first reader", "answer"),
            Column("references", "references"),
            Column("words of the passage", "words"),
        ],
        notes=[
            (
                "The first of each type of question to which every reader's answer shares no word "
                "with a reference."
            ),
        ],
    ),
    "calibration": Layout(
        "Calibration on {file}",
        [
            Column("reader", "name"),
            Column("temperature", "stage"),
            Column("error", "expected_calibration_error", ".4f"),
            Column("log loss", "log_loss", ".4f"),
            Column("mean confidence", "mean_confidence", ".1%"),
            Column("F1", "f1", ".1f"),
            Column("error against EM", "against_exact_match", ".4f"),
            Column("EM", "exact_match", ".1f"),
        ],
        notes=[
            (
                "A confidence is the F1 to expect of an answer. Nothing was fitted on these "
                "questions: a temperature comes from articles held out of training."
            ),
        ],
    ),
    "figure": Layout(
        "Figure 2: what reattention moved · {question} · {answer}",
        [
            Column("round", "round"),
            Column("question word", "i"),
            Column("passage word", "j"),
            Column("overlap of past attentions", "past", ".3f"),
            Column("attention before", "before", ".3f"),
            Column("after", "after", ".3f"),
        ],
    ),
    "claims": Layout(
        "The paper's claims",
        [
            Column("claim", "what"),
            Column("ours (95 % interval)", "ours"),
            Column("paper", "paper", "+.2f"),
            Column("share of the paper's gain", "share"),
            Column("p of the sign", "chance"),
            Column("by Holm", "corrected"),
            Column("p of the paper's size", "of_paper"),
            Column("power", "power", ".0%"),
            Column("starts", "count", "d"),
            Column("in words", "words"),
            Column("command or log", "log"),
        ],
        notes=[
            (
                "One rule gives the words. The sign is told where p is below 5 % after Holm's "
                "correction over the {tested} comparisons of this table. The size is the share of "
                "the paper's gain; the words say what its 95 % interval (not corrected) excludes. "
                "A claim has the words of its first comparison. Power is the chance to have seen "
                "the paper's gain with so much data."
            ),
            (
                "Student's t over independent starts, paired by seed. Starts are random effects: "
                "seeds that continue from one start count once, by their mean, and so do the "
                "readers of one ensemble. Divergences are compared as log ratios."
            ),
            (
                "The paper has no adversarial scores of its ablations; its lead over FusionNet on "
                "attacked text is what it says that the two parts bring."
            ),
        ],
    ),
    "cost": Layout(
        "Time and cost",
        [
            Column("log", "log"),
            Column("study", "study"),
            Column("trainings", "trainings", "d"),
            Column("steps", "steps", ",d"),
            Column("hours of training", "hours"),
            Column("device hours", "device"),
            Column("cost", "cost"),
            Column("commits", "commits"),
        ],
        notes=[
            (
                "Hours of training are of the steps; trainings that ran side by side share a "
                "device, which is counted once."
            ),
        ],
    ),
    "missing": Layout(
        "What is not measured yet",
        [
            Column("what", "what"),
            Column("command", "command"),
        ],
    ),
}
