"""Run every command of the guide's users' shelf and compare, or write, what it prints.

    python scripts/build_guide.py [PAGE...]           run the pages, and tell where they differ
    python scripts/build_guide.py --write [PAGE...]   run them, and write what they print into them

`make guide` does the second after new readers. A page is run from top to bottom in a folder of its
own that holds `examples/` of the repository. What is run is written in the page:

- ```console: a line after `$ ` is a command, the lines below it are what it prints (none: whatever
  it prints is fine). A line `…` stands for any number of lines.
- ```sh: commands, without what they print.
- ```python: a program.
- `<!-- not run: WHY -->` above such a block says why it is not run.

A command that serves stays until the page, or the next such command, ends; 8000 is replaced by a
port that is free. What is shown is compared with the results, or, where a command has none, with
its remarks. Percentages and scores may differ by TOLERANCE, and the word of doubt beside a
percentage is not compared: another reader has others. Everything else must be the same.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SHELF = "For users"
ALSO = ("index.md", "serving.md")  # of no shelf, and of the other
TOLERANCE = 15
SERVERS = ("rmreader serve", "uvicorn ", "hypercorn ", "granian ")
NOTHING: Mapping[str, str] = MappingProxyType({})
PATIENCE = 120  # seconds for a server to begin

BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>.+?) -->\n)?(?P<indent> *)```(?P<language>console|sh|python)\n"
    r"(?P<body>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
FIGURE = re.compile(r"\d+(?= ?%)|-?\d+\.\d{3,}(?:e-\d+)?")
READERS = re.compile(r"(<!-- readers: written by `make guide` -->)\n.*?(<!-- end of readers -->)", re.DOTALL)
DOUBT = re.compile(r"(?<=\()(?:sure|likely|perhaps), (?=\d+%)|(?<=\"doubt\": )\"\w+\"")


@dataclass
class Command:
    """One command of a page, and what the page shows below it."""

    text: str
    written: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)


@dataclass
class Block:
    """A block of code that is run, or says why it is not."""

    language: str
    body: str
    start: int
    end: int
    why_not: str | None

    def commands(self) -> list[Command]:
        """The commands in order; a program is one of them."""
        if self.language == "python":
            return [Command(self.body)]
        found: list[Command] = []
        lines = iter(self.body.splitlines())
        for line in lines:
            if self.language == "console" and not line.startswith("$ "):
                assert found, f"what is printed comes before its command: {line}"
                found[-1].shown.append(line)
            elif line.strip():
                found.append(self._command(line, lines))
        return found

    def _command(self, line: str, more: Iterator[str]) -> Command:
        """A command that may go on in the next lines, after a backslash."""
        lines = [line]
        while lines[-1].endswith("\\"):
            lines.append(next(more))
        text = "".join(line.strip().removesuffix("\\") for line in lines)
        return Command(text.removeprefix("$ "), lines)


def users_pages() -> list[Path]:
    """The pages that are run: the users' shelf, in the order of the site, and a few more."""
    import yaml

    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    tree = yaml.safe_load(re.sub(r"!!python/\S+ ", "", text))
    shelf = next(entry[SHELF] for entry in tree["nav"] if SHELF in entry)
    return [DOCS / name for name in [*_names(shelf), *ALSO]]


def _names(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
        return
    for part in tree.values() if isinstance(tree, dict) else tree:
        yield from _names(part)


def blocks(text: str) -> list[Block]:
    """Every block of a page that is run, or says why it is not."""
    found = []
    for match in BLOCK.finditer(text):
        body = re.sub(rf"^{match['indent']}", "", match["body"], flags=re.MULTILINE)
        start, end = match.span("body")
        found.append(Block(match["language"], body, start, end, match["why"]))
    return found


class PageRun:
    """A folder in which the commands of one page are run, in order."""

    def __init__(self, folder: Path, known: Mapping[str, str]) -> None:
        shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
        (folder / "home").mkdir(exist_ok=True)
        self.folder = folder
        self.known = known
        self.server: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        beside = Path(sys.executable).parent
        self.environment = os.environ | {
            "HOME": str(folder / "home"),
            "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "200",
        }

    def run(self, language: str, command: str, may_fail: bool) -> list[str]:
        """What a command prints: its results, or what it remarks where it has none."""
        if command in self.known:
            return self.known[command].rstrip().splitlines()
        command = re.sub(r"(localhost|127\.0\.0\.1):8000", rf"\1:{self.port}", command)
        if language != "python" and command.startswith(SERVERS):
            self._serve(command)
            return []
        # A refusal of the server, or of the first command of a pipe, is a failure here.
        command = command.replace("curl -s ", "set -o pipefail; curl -s --fail-with-body ")
        words = [sys.executable, "-c", command] if language == "python" else ["bash", "-c", command]
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert (done.returncode != 0) == may_fail, f"{command}\n{done.stdout}{done.stderr}"
        printed = done.stdout if done.stdout.strip() else done.stderr
        return printed.replace(self.port, "8000").rstrip().splitlines()

    def _serve(self, command: str) -> None:
        """Start a server, in the place of the one before, and wait until it answers."""
        self.stop()
        option = "--bind" if command.startswith("hypercorn") else "--port"
        place = f"127.0.0.1:{self.port}" if option == "--bind" else self.port
        words = [*shlex.split(command, comments=True), option, place]
        log = self.folder / "home" / "server.log"
        with log.open("wb") as out:
            self.server = subprocess.Popen(words, cwd=self.folder, env=self.environment, stdout=out, stderr=out)
        deadline = time.monotonic() + PATIENCE
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(self.port))) == 0:
                    return
            said = log.read_text(encoding="utf-8", errors="replace")
            assert self.server.poll() is None, f"{command}\n{said}"
            assert time.monotonic() < deadline, f"{command}\n{said}"
            time.sleep(0.1)

    def stop(self) -> None:
        """End the server, if one runs."""
        if self.server is not None:
            self.server.send_signal(signal.SIGTERM)
            try:
                self.server.wait(30)
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.wait()
            self.server = None


def run_page(
    page: Path, folder: Path, known: Mapping[str, str] = NOTHING
) -> Iterator[tuple[Block, Command, list[str]]]:
    """Every command of a page with what it printed.

    ``known`` has what commands printed that were run before, in the same folder.
    """
    running = PageRun(folder, known)
    try:
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.why_not is None:
                for command in block.commands():
                    fails = any(line.startswith("error:") for line in command.shown)
                    yield block, command, running.run(block.language, command.text, fails)
    finally:
        running.stop()


def differences(shown: list[str], printed: list[str]) -> list[str]:
    """Where the lines that a page shows are not those that were printed."""
    wanted = "\n".join(shown).rstrip().splitlines()
    if not wanted:
        return []
    if "…" not in wanted:
        return _unlike(wanted, printed)
    cut = wanted.index("…")
    head, tail = wanted[:cut], wanted[cut + 1 :]
    return _unlike(head, printed[: len(head)]) + _unlike(tail, printed[len(printed) - len(tail) :])


def _unlike(wanted: list[str], printed: list[str]) -> list[str]:
    if len(wanted) != len(printed):
        return ["shown:", *wanted, "printed:", *printed]
    pairs = zip(wanted, printed, strict=True)
    return [f"shown:   {one}\nprinted: {other}" for one, other in pairs if not _alike(one, other)]


def _alike(shown: str, printed: str) -> bool:
    """Whether two lines are the same but for figures that are near each other."""
    texts, figures = [], []
    for line in (shown, printed):
        line = " ".join(DOUBT.sub("", line).split())
        figures.append([float(figure) for figure in FIGURE.findall(line)])
        texts.append(FIGURE.sub("#", line))
    if texts[0] != texts[1]:
        return False
    near = [abs(one - other) <= TOLERANCE for one, other in zip(*figures, strict=True)]
    return all(near)


def written(page: Path, folder: Path) -> str:
    """The page with what its commands print now."""
    text = page.read_text(encoding="utf-8")
    bodies: dict[int, tuple[Block, list[str]]] = {}
    for block, command, printed in run_page(page, folder):
        lines = bodies.setdefault(block.start, (block, []))[1]
        lines += command.written
        same = not differences(command.shown, printed)
        if not any(command.shown) or ("…" in command.shown and same):
            lines += command.shown
        else:
            lines += printed if len(printed) == 1 else [*printed, ""]
    for block, lines in reversed(bodies.values()):
        if block.language == "console":
            body = "\n".join(lines).rstrip() + "\n"
            text = text[: block.start] + body + text[block.end :]
    return text


def readers_table() -> str:
    """The shipped readers and their scores, from their own files."""
    from rmreader.readers.folder import SHIPPED, open_folder

    rows = [
        "| reader | SQuAD 1.1 dev, EM / F1 | AddSent | AddOneSent | size, without the 10 MB of word vectors of all |",
        "|---|---|---|---|---|",
    ]
    for folder in sorted(path.parent for path in SHIPPED.glob("*/reader.json")):
        scores = open_folder(folder).about["scores"]
        cells = [f"`{folder.name}`"]
        for data in ("SQuAD 1.1 dev", "AddSent", "AddOneSent"):
            cells.append(f"{scores[data]['exact_match']:.1f} / {scores[data]['f1']:.1f}")
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        cells.append(f"{size / 1e6:.1f} MB")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def with_readers(text: str) -> str:
    """The page with the table of readers, where it has a place for it."""
    table = readers_table()
    return READERS.sub(lambda match: f"{match[1]}\n\n{table}\n\n{match[2]}", text)


def with_demo(readme: str) -> str:
    """The README with what `make demo` prints now."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    command = makefile.partition("rmreader ask ")[2].partition("\n\n")[0]
    words = shlex.split(command.replace("\\\n", " "))
    done = subprocess.run(
        [sys.executable, "-m", "rmreader", "ask", *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    head, begin, rest = readme.partition("$ make demo\n")
    end = "\n$ make test"
    return head + begin + done.stdout.rstrip() + "\n" + end + rest.partition(end)[2]


def main() -> int:
    """Run the pages that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write what is printed into the page")
    parser.add_argument("pages", nargs="*", type=Path)
    options = parser.parse_args()
    if options.write and not options.pages:
        readme = ROOT / "README.md"
        text = with_demo(readme.read_text(encoding="utf-8"))
        readme.write_text(text, encoding="utf-8")
    wrong = 0
    for page in options.pages or users_pages():
        with tempfile.TemporaryDirectory() as name:
            try:
                if options.write:
                    text = with_readers(written(page, Path(name)))
                    page.write_text(text, encoding="utf-8")
                    print(f"{page.name}: written", flush=True)
                    continue
                told = []
                for _, command, printed in run_page(page, Path(name)):
                    if unlike := differences(command.shown, printed):
                        told += [f"$ {command.text}", *unlike]
            except AssertionError as error:  # a command failed: the page stays, the others go on
                told = [str(error)]
        wrong += bool(told)
        print("\n".join([f"{page.name}: {'differs' if told else 'as shown'}", *told]), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
