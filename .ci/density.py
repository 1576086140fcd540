#!/usr/bin/env python3
"""Measure how much code there is, in the package and in the lab, and how tightly it is packed.

    python .ci/density.py            print the totals and the files that exceed the measures
    python .ci/density.py --files    print every file
    python .ci/density.py --check    fail where a limit is exceeded (`make test` runs this)
    python .ci/density.py --ratchet  lower the recorded limits to what is measured now

Tokens are Python's own, without comments, docstrings, newlines and indentation: packing lines gains
nothing. `.ci/density.txt` lists the files that do not meet the measures yet, with what they may
have at most. Those numbers only fall. A file that is not listed must meet the measures.
"""

from __future__ import annotations

import argparse
import ast
import io
import itertools
import math
import shutil
import subprocess
import sys
import tempfile
import tokenize
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What is measured, and the name of its limit on all tokens.
TREES = {"src/rmreader": "tokens", "lab": "lab-tokens"}
RECORD = Path(__file__).with_name("density.txt")

# What every file must meet in the end. Density is only asked of files of SHORT lines or more.
# Ruff holds the width.
MEASURES = {"per_line": 7.0, "branches": 12}
SHORT = 40
COLUMNS = 100

LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
BRANCHES = (
    ast.If,
    ast.For,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.comprehension,
    ast.BoolOp,
    ast.match_case,
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class FileMeasures:
    """What one file has."""

    name: str
    tokens: int
    lines: int
    columns: int
    branches: int
    branchiest: str

    @property
    def per_line(self) -> float:
        """Tokens per physical line, rounded up, so that a recorded limit is never too low."""
        return math.ceil(100 * self.tokens / max(1, self.lines)) / 100

    def rounded(self) -> dict[str, float]:
        """Round the measures up to limits that one more import does not break."""
        per_line = math.ceil(2 * self.per_line) / 2 if self.lines >= SHORT else 0
        return {"per_line": per_line, "branches": self.branches}

    def excess(self, limits: dict[str, float]) -> list[str]:
        """Say which limits this file exceeds."""
        problems = []
        if self.lines >= SHORT and self.per_line > limits["per_line"]:
            problems.append(f"{self.per_line} tokens per line, at most {limits['per_line']}")
        if self.branches > limits["branches"]:
            problems.append(
                f"{self.branches} branches in {self.branchiest}, at most {limits['branches']}"
            )
        return problems


def docstring_lines(tree: ast.AST) -> set[int]:
    """Return the lines on which a docstring begins."""
    lines = set()
    for node in ast.walk(tree):
        if not isinstance(node, DOCUMENTED) or not node.body:
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            lines.add(first.lineno)
    return lines


def count_tokens(text: str, tree: ast.AST) -> int:
    """Count the tokens of a file that are code."""
    documentation = docstring_lines(tree)
    tokens = 0
    inside = 0  # an f-string is one token, also since Python 3.12, which takes it apart
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        if name.endswith("STRING_END"):
            inside -= 1
            continue
        is_docstring = name == "STRING" and token.start[0] in documentation
        if token.type not in LAYOUT and not is_docstring and not inside:
            tokens += 1
        if name.endswith("STRING_START"):
            inside += 1
    return tokens


def measure(path: Path) -> FileMeasures:
    """Measure one file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    branches, branchiest = 0, ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = sum(isinstance(inner, BRANCHES) for inner in ast.walk(node))
            if count > branches:
                branches, branchiest = count, node.name
    return FileMeasures(
        name=path.relative_to(ROOT).as_posix(),
        tokens=count_tokens(text, tree),
        lines=text.count("\n"),
        columns=max(map(len, text.splitlines()), default=0),
        branches=branches,
        branchiest=branchiest,
    )


@dataclass(frozen=True)
class TreeMeasures:
    """What all files of a tree have."""

    name: str
    files: list[FileMeasures]
    growth: float  # how many per cent more lines formatting at 88 columns gives

    @property
    def tokens(self) -> int:
        """The tokens of all files."""
        return sum(row.tokens for row in self.files)

    @property
    def lines(self) -> int:
        """The lines of all files."""
        return sum(row.lines for row in self.files)


def measure_tree(name: str) -> TreeMeasures:
    """Measure a tree."""
    paths = sorted((ROOT / name).rglob("*.py"))
    return TreeMeasures(name, [measure(path) for path in paths], growth_at_88_columns(ROOT / name))


def growth_at_88_columns(source: Path) -> float:
    """Return how many per cent more lines formatting at 88 columns gives."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("shipped", "__pycache__"))
        before = count_lines(copy)
        options = ["format", "--quiet", "--isolated", "--line-length", "88"]
        ruff = shutil.which("ruff") or Path(sys.executable).with_name("ruff")
        subprocess.run([ruff, *options, copy], check=True)
        after = count_lines(copy)
    return 100 * (after - before) / before


def count_lines(folder: Path) -> int:
    """Count the lines of all Python files in a folder."""
    return sum(path.read_text(encoding="utf-8").count("\n") for path in folder.rglob("*.py"))


@dataclass
class Record:
    """The recorded limits: of all tokens of a tree, of growth at 88 columns, of single files."""

    tokens: dict[str, float]
    growth: float
    files: dict[str, dict[str, float]]

    @classmethod
    def load(cls) -> Record:
        """Read the limits. Of a file that a merge left in twice, the higher ones count."""
        record = cls(tokens=dict.fromkeys(TREES.values(), 0), growth=0, files={})
        for line in RECORD.read_text(encoding="utf-8").splitlines():
            name, *words = line.split()
            if name in record.tokens:
                record.tokens[name] = max(record.tokens[name], int(words[0]))
            elif name == "growth":
                record.growth = max(record.growth, int(words[0]))
            else:
                limits = record.files.setdefault(name, {})
                for word in words:
                    key, _, limit = word.partition("=")
                    limits[key] = max(limits.get(key, 0), float(limit))
        return record

    def save(self) -> None:
        """Write the limits, one line per file: changes of different files merge by themselves."""
        lines = [f"{name} {limit:.0f}" for name, limit in self.tokens.items()]
        lines.append(f"growth {self.growth:.0f}")
        for name, limits in sorted(self.files.items()):
            words = [f"{key}={limit:g}" for key, limit in limits.items()]
            lines.append(f"{name} {' '.join(words)}")
        RECORD.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def limits_of(self, name: str) -> dict[str, float]:
        """Return what a file may have: the measures, or its own limits where it is listed."""
        return MEASURES | self.files.get(name, {})


def problems(trees: list[TreeMeasures]) -> list[str]:
    """Compare all files with their limits, and the totals with theirs."""
    record = Record.load()
    sentences = []
    for tree in trees:
        for row in tree.files:
            for excess in row.excess(record.limits_of(row.name)):
                sentences.append(f"{row.name}: {excess}")
        limit = record.tokens[TREES[tree.name]]
        if tree.tokens > limit:
            sentences.append(f"{tree.name}: {tree.tokens:,} tokens in all, at most {limit:,}")
        if tree.growth > record.growth:
            sentences.append(
                f"{tree.name}: {tree.growth:.1f} % more lines at 88 columns, "
                f"at most {record.growth} %"
            )
    if sentences:
        sentences.append(
            "(Unfold it. If you moved a listed file, move its line in .ci/density.txt.)"
        )
    return sentences


def ratchet(trees: list[TreeMeasures]) -> None:
    """Lower the recorded limits to what is measured; drop the files that meet the measures.

    The limit on all tokens is changed by hand: a feature that needs more says so in docs/house.md.
    """
    record = Record.load()
    growth = max(tree.growth for tree in trees)
    record.growth = min(record.growth, max(15, math.ceil(growth) + 1))
    lowered = {}
    for row in itertools.chain.from_iterable(tree.files for tree in trees):
        limits = record.limits_of(row.name)
        exceptions = {}
        for key, measured in row.rounded().items():
            limit = min(limits[key], measured)
            if limit > MEASURES[key]:
                exceptions[key] = limit
        if exceptions:
            lowered[row.name] = exceptions
    record.files = lowered
    record.save()


def show(tree: TreeMeasures, every: bool) -> None:
    """Print the totals, then the files that exceed the measures, or every file."""
    rows = tree.files
    per_line = tree.tokens / tree.lines
    dense = sum(row.lines >= SHORT and row.per_line > MEASURES["per_line"] for row in rows)
    branchy = sum(row.branches > MEASURES["branches"] for row in rows)
    wide = sum(row.columns > COLUMNS for row in rows)
    print(
        f"{tree.name}: {len(rows)} files, {tree.lines:,} lines, "
        f"{tree.tokens:,} tokens, {per_line:.2f} per line"
    )
    print(f"{tree.growth:+.0f} % lines at 88 columns")
    print(f"{dense} files over {MEASURES['per_line']} tokens per line")
    print(f"{branchy} files with a function of more than {MEASURES['branches']} branches")
    print(f"{wide} files with a line of more than {COLUMNS} columns")
    for row in sorted(rows, key=lambda row: -row.per_line):
        if every or row.excess(MEASURES):
            print(
                f"{row.per_line:6.2f} {row.tokens:6d} {row.lines:5d} {row.columns:4d}"
                f" {row.branches:3d} {row.branchiest:24.24} {row.name}"
            )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", action="store_true", help="print every file")
    parser.add_argument("--check", action="store_true", help="fail where a limit is exceeded")
    parser.add_argument("--ratchet", action="store_true", help="lower the recorded limits")
    options = parser.parse_args()

    trees = [measure_tree(name) for name in TREES]
    if options.ratchet:
        ratchet(trees)
    if options.check:
        sys.exit("\n".join(problems(trees)) or 0)
    for tree in trees:
        show(tree, options.files)


if __name__ == "__main__":
    main()
