"""Planted mistakes: each must be caught by the tests of its room.

    python tests/mutants.py [WORD …]      # all of them, or those whose file or text holds one of the words
    python tests/mutants.py --dry         # only whether each can still be planted; a test runs this

Every mistake is put into a copy of the repository, one at a time; the tests named beside it run there with a time limit
until one fails (or hangs), and that one must pass in the copy as it is. Each run is a fork of a process that has loaded
torch and its like, which takes longer than most tests. Results are kept in ``build/mutants.jsonl``, so a run that was
broken off goes on where it was; a mistake, or tests, that changed since are run again. The exit status is 1 where one
was not caught, 2 where the text of one is no longer there: then bring the list up to date.
"""

# ruff: noqa: E501 - a mistake is easier to compare on one line

from __future__ import annotations

import ast
import compileall
import contextlib
import gc
import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "mutants.jsonl"
LIBRARIES = ("numpy", "torch", "torch._dynamo", "safetensors.torch", "onnxruntime", "typer")
SECONDS = int(os.environ.get("RMREADER_MUTANT_SECONDS", "300"))  # of a processor: a busy machine catches no mistake


@dataclass(frozen=True)
class Mistake:
    """One line as it is, as somebody in a hurry might have written it, and the tests that must see it."""

    file: str  # under src/rmreader, or in lab/; where it has moved, the one file that holds the text is taken
    before: str
    after: str
    tests: str


ENCODE, SQUAD, DOWNLOAD = "tests/data/test_encode.py", "tests/data/test_squad_files.py", "tests/data/test_download.py"
BATCHES, LEXICON, GLOVE = "tests/data/test_batches.py", "tests/text/test_lexicon.py", "tests/text/test_glove.py"
BOMBS, CODE, TERMINAL = (
    "tests/hostile/test_bombs.py",
    "tests/hostile/test_foreign_code.py",
    "tests/hostile/test_terminal.py",
)
ELMO, VECTORS, TOKENS = "tests/hostile/test_elmo_files.py", "tests/text/test_vectors.py", "tests/text/test_tokens.py"
PIECES, WINDOWS = "tests/model/test_transformer_pieces.py", "tests/text/test_windows.py"
EQUATIONS, SPANS = "tests/model/test_equations.py tests/model/test_mistakes.py", "tests/model/test_spans.py"
OBJECTIVES, SCHEDULE = "tests/training/test_objectives.py", "tests/training/test_schedule.py"
CHECKPOINT, TRAINER = "tests/training/test_checkpoint.py", "tests/training/test_trainer.py"
SCORES, ADVERSARIAL, CALIBRATION = (f"tests/scoring/test_{name}.py" for name in ("squad", "adversarial", "calibration"))
READ_SPANS, READ_WINDOWS = "tests/reading/test_decode.py", "tests/reading/test_portions.py"
READER, CALIBRATE = "tests/reading/test_reader.py", "tests/reading/test_calibrate.py"
PREDICT, FOLDER = (f"tests/reading/test_{name}.py" for name in ("predict", "folder"))
SENTENCES, SHARDS, TUNE = "tests/text/test_sentences.py", "tests/predict/test_shards.py", "tests/training/test_tune.py"
STRANGER, PRIVACY = "tests/documents/test_stranger.py", "tests/hostile/test_privacy.py"
DAMAGE, FORMATS, INDEX = (f"tests/documents/test_{name}.py" for name in ("damage", "formats", "index"))
DOCUMENTS, SEARCH, PLACES = (f"tests/documents/test_{name}.py" for name in ("documents", "search", "places"))
API, HOSTILE = "tests/server/test_api.py", "tests/server/test_hostile.py"
REPLACED, MCP, FOUNDRY = (
    "tests/server/test_shelf_replaced.py",
    "tests/integrations/test_mcp.py",
    "lab/tests/test_foundry.py",
)
NEAR, STATES = "lab/tests/test_near_misses.py", "tests/training/test_states.py"
BATCHER, REQUESTS = "tests/server/test_batcher.py", "tests/server/test_bad_requests.py"

MISTAKES = [
    # the fourteen that were once not seen
    Mistake("training/step.py", ".clamp(min=1.0)", ".clamp(min=0.0)", "tests/training/test_step.py"),
    Mistake("training/step.py", "numbers = [training.seed, step]", "numbers = [training.seed, 0]", "tests/training/test_step.py"),
    Mistake("core/files/manifest.py", "            sync(path)\n", "            pass\n", CHECKPOINT),
    Mistake("core/files/manifest.py", 'for suffix in ("new", "old"):', 'for suffix in ("old", "new"):', CHECKPOINT),
    Mistake("data/split.py", "training.seed if training.holdout_seed < 0 else training.holdout_seed", "training.seed", "tests/data/test_split.py"),
    Mistake("reading/spans.py", "np.minimum(_within(same, shape), count)", "_within(same, shape)", READ_SPANS),
    Mistake("reading/calibrate.py", "f1=f1(text, references),\n            log_odds", "f1=f1(text, references[:1]),\n            log_odds", CALIBRATE),
    Mistake("reading/portions.py", "begin + margin for", "begin + margin + 1 for", READ_WINDOWS),
    Mistake("server/batcher.py", "if not has_room or wait > allowed or late:", "if not has_room or late:", BATCHER),
    Mistake("server/requests.py", "        if received <= limit:", "        if received < limit:", "tests/server/test_api.py"),
    Mistake("data/encode.py", "{_FORMAT} {RULE} True", "{_FORMAT} True", ENCODE),
    Mistake("text/piece_layout.py", "np.minimum(before, after)", "before", WINDOWS),
    Mistake("text/lexicon.py", "setdefault(word.casefold(), len(numbers))", "setdefault(word, len(numbers))", LEXICON),
    # text
    Mistake("text/tokens.py", 'category[0] == "M"', 'category == "Mn"', TOKENS),
    Mistake("text/tokens.py", 'category in ("Nl", "No")', 'category in ("Nl",)', TOKENS),
    Mistake("text/lexicon.py", "self._trained_rows.get(word, 1)", "self._trained_rows.get(word, 0)", LEXICON),
    Mistake("text/lexicon.py", "np.maximum(counts, 1)", "counts", LEXICON),
    Mistake("text/lexicon.py", "if actual != about", "if False and actual != about", LEXICON),
    Mistake("text/lexicon.py", "key=lambda word: (-counts[word], word)", "key=lambda word: word", LEXICON),
    Mistake("text/glove.py", "if name in keep and name not in vectors:", "if name in keep:", GLOVE),
    Mistake("text/glove.py", "if dim == 0 or spaces < dim:", "if dim == 0:", GLOVE),
    Mistake("text/glove.py", "line.rsplit(b\" \", dim)[0]", "line.split(b\" \")[0]", GLOVE),
    Mistake("text/glove.py", "file.readline(_LONGEST_LINE)", "file.readline()", GLOVE),
    Mistake("text/vectors.py", "for position in range(1, int(counts.max(initial=0))):", "for position in range(1, 2):", VECTORS),
    Mistake("text/vectors.py", "if not 0 < len(word) <= _LONGEST_WORD:", "if not 0 < len(word):", VECTORS),
    Mistake("text/vectors.py", "if not 0 <= begin <= end <= len(data)", "if not begin <= end", f"{BOMBS}::test_an_array_that_is_not_in_its_file_is_refused"),
    Mistake("text/pieces.py", "pieces[:MOST_PIECES] or [self._unknown]", "pieces[:MOST_PIECES]", PIECES),
    Mistake("text/pieces.py", "positions -= self.pad + 1", "positions -= 0", PIECES),
    Mistake("text/pieces.py", '_FOREIGN = ("auto_map", ', "_FOREIGN = (", CODE),
    Mistake("text/piece_layout.py", 'starts[begin] + room, side="right"', 'starts[begin] + room, side="left"', WINDOWS),
    Mistake("model/transformer.py", "if size > _MOST_WEIGHTS:", "if size < 0:", CODE),
    Mistake("model/elmo.py", "bias[:, cell : 2 * cell] += 1", "bias[:, cell : 2 * cell] += 0", "tests/model/test_elmo.py"),
    Mistake("model/elmo.py", "if array.nbytes > 200 * array.id.get_storage_size():", "if False:", ELMO),
    Mistake("model/elmo.py", "all(isinstance(link, h5py.HardLink) for link in links)", "True", ELMO),
    # data
    Mistake("data/squad.py", "        if id in self.seen:", "        if False:", SQUAD),
    Mistake("data/squad.py", "type(value) in (str, int)", "type(value) is str", SQUAD),
    Mistake("data/squad.py", "if not context.startswith(text, start):", "if text not in context:", SQUAD),
    Mistake("data/squad.py", "if not 0 <= start <= len(context) - len(text):", "if not start <= len(context) - len(text):", SQUAD),
    Mistake("data/encode.py", "bisect_right(ends, begin)", "bisect_left(ends, begin)", ENCODE),
    Mistake("data/encode.py", "values = values + np.int32(passages)", "values = values", ENCODE),
    Mistake("data/encode.py", "        if starts[first] == begin and ends[last] == end:", "        if starts[first] == begin:", ENCODE),
    Mistake("data/download.py", "if actual != expected:", "if False:", DOWNLOAD),
    Mistake("data/download.py", "not stat.S_ISREG(status.st_mode) or status.st_nlink > 1", "False", f"{BOMBS}::test_a_download_follows_nothing_that_was_planted"),
    Mistake("data/download.py", "left = attempts if _length(part) > most else left - 1", "left = left - 1", DOWNLOAD),
    Mistake("data/batches.py", "generator = np.random.default_rng((self.seed % 2**64, k))", "generator = np.random.default_rng(self.seed % 2**64)", BATCHES),
    Mistake("data/batches.py", "earliest = np.clip(end + 1 - sizes, 0,", "earliest = np.clip(end - sizes, 0,", BATCHES),
    Mistake("core/files/reading.py", "        if self.left < 0:", "        if False:", f"{BOMBS}::test_a_gzip_bomb_is_one_sentence"),
    Mistake("core/files/yaml.py", "if isinstance(event, yaml.AliasEvent):", "if False:", f"{BOMBS}::test_a_recipe_that_unfolds_or_nests_is_one_sentence"),
    Mistake("errors.py", "range(127, 160)", "range(127, 128)", TERMINAL),
    Mistake("errors.py", 'super().__init__(printable(" ".join(sentence.splitlines())))', "super().__init__(sentence)", TERMINAL),
    # scoring
    Mistake("scoring/squad.py", "return max(_overlap(", "return min(_overlap(", SCORES),
    Mistake("scoring/squad.py", "plain = text.lower().translate(_NO_PUNCTUATION)", "plain = text.lower()", SCORES),
    Mistake("scoring/squad.py", "(Counter(predicted) & Counter(reference)).total()", "len(set(predicted) & set(reference))", SCORES),
    Mistake("scoring/squad.py", "row[1] < worst[root][1]", "row[1] > worst[root][1]", ADVERSARIAL),
    Mistake("scoring/squad.py", "counted = clean | worst", "counted = worst | clean", ADVERSARIAL),
    Mistake("scoring/calibration.py", "np.ceil(confidence * bins).astype(int) - 1", "np.floor(confidence * bins).astype(int)", CALIBRATION),
    # reading
    Mistake("reading/spans.py", "np.arange(1, shape[1] + 1)", "np.arange(shape[1])", READ_SPANS),
    Mistake("reading/question.py", "spans if top == 1 else with_words(spans, self._words)", "spans", READER),
    Mistake("reading/spans.py", "np.flatnonzero(flat >= floor)", "np.flatnonzero(flat > floor)", READ_SPANS),
    Mistake("reading/portions.py", "shared = 2 * margin", "shared = margin", READ_WINDOWS),
    Mistake("reading/question.py", "weight = log_sum(start) + log_sum(end)", "weight = log_sum(start)", READER),
    Mistake("reading/question.py", "confidence = min(confidence, ", "confidence = max(confidence, ", READER),
    Mistake("text/sentences.py", "if match.end() <= start:", "if match.end() < start:", SENTENCES),
    # predict
    Mistake("predict/predict.py", "            if its_run != run:", "            if False:", PREDICT),
    Mistake("predict/predict.py", "            if its_run is None:", "            if False:", PREDICT),
    Mistake("predict/predict.py", "    if out.exists() and not force:", "    if False:", PREDICT),
    Mistake("predict/job.py", "json.dumps(facts | asking, sort_keys=True)", "json.dumps(facts, sort_keys=True)", PREDICT),
    Mistake("predict/job.py", '{"readers": _digest(names), ', '{"readers": len(names), ', PREDICT),
    Mistake("predict/writers.py", "    if isinstance(cell, str) and _FORMULA.match(cell):", "    if False:", PREDICT),
    Mistake("predict/writers.py", 'delimiter=delimiter, lineterminator="\\r\\n")', 'delimiter=delimiter, lineterminator="\\n")', PREDICT),
    Mistake("predict/writers.py", "    if not answers and answers.guess is not None:", "    if False:", PREDICT),
    Mistake("predict/shards.py", "        if seal != self._seal(index, lines):", "        if False:", SHARDS),
    Mistake("predict/shards.py", 'hashlib.sha256(f"{self.digest} {index} ".encode())', "hashlib.sha256()", SHARDS),
    Mistake("predict/shards.py", "        if hashlib.sha256(content).hexdigest() != shard.sha256:", "        if False:", SHARDS),
    Mistake("reading/engine/runtime.py", 'os.environ["ORT_DISABLE_TELEMETRY"] = "1"', "pass", f"{PRIVACY}::test_python_connects_to_nobody_and_the_home_stays_empty"),
    # tune
    Mistake("training/tuning_data.py", "if asked[_words(question.text)] == 1:", "if True:", TUNE),
    Mistake("training/tuning_data.py", "return TuningData((*extended, *ordinary), made + given)", "return TuningData(own.articles, made + given)", TUNE),
    Mistake("training/tune.py", "refusals.append(not answers)", "refusals.append(False)", TUNE),
    Mistake("training/pointer_tuning.py", "            if not is_ordinary(encoded.ids[number]):", "            if False:", "tests/training/test_pointer_tuning.py"),
    Mistake("training/states.py", "rounded = scaled.round().clamp(-SCALE, SCALE)", "rounded = scaled.clamp(-SCALE, SCALE)", STATES),
    Mistake("training/states.py", "if about != _about(questions, max_context, size):", "if False:", STATES),
    Mistake("training/objectives.py", "apart = torch.where(inside, states - taught, 0.0)", "apart = torch.where(inside | True, states - taught, 0.0)", STATES),
    Mistake("training/prepare.py", 'if name.startswith(("aligner.", "pointer.")):', 'if name.startswith("aligner."):', STATES),
    Mistake("training/tune.py", "        if after < before - _WORSE:", "        if False:", TUNE),
    Mistake("data/examples.py", "        if words > _LONGEST_QUESTION:", "        if False:", TUNE),
    # documents and their index
    Mistake("documents/sqlite_index.py", "checksum != passage_checksum((root, file), offsets, stretch, runs)", "False", STRANGER),
    Mistake("documents/sqlite_file.py", "    if expected is None or _objects(base) != _expected_objects(expected):", "    if expected is None:", STRANGER),
    Mistake("documents/sandbox.py", "        late.set()\n", "", f"{DAMAGE}::test_a_parser_that_never_ends_is_ended"),
    Mistake("documents/sandbox.py", "resource.setrlimit(resource.RLIMIT_AS, (memory, memory))", "pass", f"{DAMAGE}::test_a_parser_that_ends_or_wants_too_much_is_one_sentence"),
    Mistake("documents/tables.py", "        if len(set(names)) < len(names) or max(map(len, names)) > _LONGEST_NAME:", "        if False:", FORMATS),
    Mistake("documents/tables.py", "        if any(_is_amount(first[column].text) for column in numbers):", "        if False:", FORMATS),
    Mistake("documents/formats/zipped.py", "        if self._left < 0:", "        if False:", f"{DOCUMENTS}::test_bombs_are_refused"),
    Mistake("documents/formats/mail.py", 'if body.get_content_subtype() != "html":', "if True:", f"{FORMATS}::test_mail"),
    Mistake("documents/passages.py", "            if size and size + len(part.text) > _LARGE:", "            if False:", f"{PLACES}::test_passages_are_of_the_size_that_readers_know"),
    Mistake("documents/indexing.py", "            if known[file].refusal:", "            if False:", "tests/documents/test_folders.py"),
    Mistake("documents/sqlite_vectors.py", "if self._stored is None or self._state != state:", "if self._stored is None:", f"{SEARCH}::test_vectors_follow_every_change"),
    Mistake("documents/sqlite_file.py", "return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns", "return status.st_dev, 0, 0, 0", f"{REPLACED}::test_a_shelf_that_lives_long_notices_a_replaced_index"),
    # the server
    Mistake("server/middleware.py", 'if origin in self.origins or "*" in self.origins:', "if True:", f"{HOSTILE}::test_a_page_of_another_origin_may_not_ask"),
    Mistake("server/middleware.py", 'if scope["type"] == "http" and not self._may_pass(scope):', "if False:", f"{API}::test_401_without_the_key"),
    Mistake("server/requests.py", "if isinstance(items, list) and len(items) > max_items:", "if False:", f"{API}::test_413_beyond_each_limit"),
    Mistake("server/transport.py", "if self.head_bytes or len(self.pipeline) >= PIPELINED:", "if self.head_bytes:", f"{HOSTILE}::test_a_connection_has_few_requests_in_flight"),
    Mistake("server/mcp.py", "    if not 1 <= values[\"top\"] <= most:", "    if not values[\"top\"] <= most:", MCP),
    Mistake("server/mcp.py", "    if kind is str and not value.strip():", "    if False:", MCP),
    # the foundry
    Mistake("lab/foundry/words.py", "np.where(learned.start < 0, SURE, -SURE)", "np.where(learned.start < 0, -SURE, SURE)", f"{FOUNDRY}::test_the_truth_wins_where_it_is_known_and_nowhere_else"),
    Mistake("lab/foundry/words.py", "np.where(known, truth, words[\"no_answer\"])", "truth", f"{FOUNDRY}::test_the_truth_wins_where_it_is_known_and_nowhere_else"),
    Mistake("lab/foundry/words.py", "np.maximum(total / len(teachers), 1e-9)", "np.maximum(total, 1e-9)", f"{FOUNDRY}::test_teachers_are_averaged_as_chances"),
    Mistake("lab/foundry/near_misses.py", "if twin == sentence or holds(twin, question):", "if twin == sentence:", NEAR),
    Mistake("lab/foundry/near_misses.py", "moved = len(passage) - len(context) if place <= answer.start else 0", "moved = 0", NEAR),
    Mistake("lab/foundry/fetch.py", "np.ascontiguousarray(matrices.pop(node.input[1]).T)", "np.ascontiguousarray(matrices.pop(node.input[1]))", f"{FOUNDRY}::test_an_onnx_graph_gives_back_the_weights_it_was_made_of"),
    Mistake("model/transformer.py", "return added.to(product_type(bias)).contiguous()", "return added.to(product_type(bias))", "tests/model/test_transformer.py"),
    Mistake("lab/foundry/encoders.py", "np.abs(weight).max(axis=1, keepdims=True)", "np.abs(weight).max(axis=0, keepdims=True)", f"{FOUNDRY}::test_an_encoder_packed_in_8_bits_comes_back_nearly_as_it_was"),
    Mistake("core/files/manifest.py", "if actual != checksum:", "if False:", FOLDER),
    Mistake("reading/question.py", "absent = no_answer > self.decision.threshold", "absent = False", "tests/reading/test_shipped.py"),
    # model
    Mistake("model/attention.py", "masked_softmax(logits, rows[:, :, None], 1, product_type(logits))", "masked_softmax(logits, rows[:, :, None] | True, 1, product_type(logits))", EQUATIONS),
    Mistake("model/attention.py", "            logit = 0.0\n", "            logit = EXCLUDED\n", EQUATIONS),
    Mistake("model/pointer.py", "expectation(R, log_p1.exp())", "expectation(R, log_p1)", EQUATIONS),
    Mistake("model/fusion.py", "return x + g * (candidate - x)", "return candidate + g * (x - candidate)", EQUATIONS),
    Mistake("model/aligner.py", "E = E + self.gamma_E * overlap(past_E, past_A, context)", "E = E + self.gamma_E * overlap(past_E, past_A, context | True)", EQUATIONS),
    Mistake("model/aligner.py", "overlap(without_diagonal(past_B, self.diagonal), past_A, context)", "overlap(past_B, past_A, context)", EQUATIONS),
    Mistake("model/spans.py", ">= lengths[:, None, None]", "> lengths[:, None, None]", SPANS),
    # learning
    Mistake("training/objectives.py", "    drawn[:, 0] = -torch.inf\n", "", OBJECTIVES),
    Mistake("training/objectives.py", "(reward_sample - reward_greedy).abs())", "reward_sample - reward_greedy)", OBJECTIVES),
    Mistake("training/objectives.py", "0.5 * torch.exp(-log_variances) * losses + log_variances", "0.5 * torch.exp(-log_variances) * losses", OBJECTIVES),
    Mistake("training/schedule.py", "if f1 > selection.best:", "if f1 >= selection.best:", SCHEDULE),
    Mistake("training/schedule.py", "(step + 1) / max(1, training.warmup)", "step / max(1, training.warmup)", SCHEDULE),
    Mistake("training/objectives.py", "return F.softplus(torch.where(start >= 0, log_odds, -log_odds)).mean()", "return F.softplus(torch.where(start >= 0, -log_odds, log_odds)).mean()", "tests/training/test_no_answer.py"),
]  # fmt: skip


def place(mistake: Mistake, root: Path) -> Path | None:
    """The one file that holds the text, once."""
    room = root / "src" / "rmreader"
    named = room / mistake.file
    if mistake.file.startswith("lab/"):
        room = root / "lab"
        named = root / mistake.file
    for paths in ([named] if named.is_file() else [], sorted(room.rglob("*.py"))):
        holding = [path for path in paths if path.read_text(encoding="utf-8").count(mistake.before) == 1]
        if len(holding) == 1:
            return holding[0]
    return None


def why_not(mistake: Mistake) -> str | None:
    """Why a mistake can no longer be planted; None if it can."""
    path = place(mistake, ROOT)
    if path is None:
        return "its text is in no file, or in several"
    changed = path.read_text(encoding="utf-8").replace(mistake.before, mistake.after)
    try:
        ast.parse(changed)
    except SyntaxError as error:
        return f"with it the file is no Python ({error.msg}, line {error.lineno})"
    for name in mistake.tests.split():
        if not (ROOT / name.partition("::")[0]).is_file():
            return f"there is no {name}"
    return None


class Failures:
    """A plugin of pytest that remembers which tests failed."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.names.append(report.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.names.append(report.nodeid)


def failing(copy: Path, tests: Sequence[str], *more: str) -> list[str]:
    """The first of the tests that fails in the copy; all of them where they did not end in time."""
    result = copy.parent / "failing.json"
    result.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            run_pytest(copy, [*more, *tests], result)
        finally:
            os._exit(1)
    try:
        is_hanging = not wait_for(child, 10 * SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):  # and all that it started
            os.killpg(child, signal.SIGKILL)
    if is_hanging or not result.exists():  # it was killed for its time
        return list(tests)
    found = json.loads(result.read_text())
    if found["status"] not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):
        if found["status"] == pytest.ExitCode.NO_TESTS_COLLECTED and more:
            return []
        raise SystemExit(
            f"{tests}: pytest ended with status {found['status']}; bring the list in {__file__} up to date"
        )
    return list(found["names"])


def run_pytest(copy: Path, words: Sequence[str], result: Path) -> None:
    """Be a process that runs tests in the copy, and write which of them failed."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    os.chdir(copy)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    data = os.environ.get("RMREADER_DATA") or str(ROOT.parent / "shared" / "data")
    if Path(data).is_dir():
        os.environ["RMREADER_DATA"] = data
    os.environ |= {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    sys.path[:1] = [str(copy), str(copy / "src")]
    failures = Failures()
    plain = ["-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider"]
    status = pytest.main([*plain, *words], plugins=[failures])
    result.write_text(json.dumps({"status": int(status), "names": failures.names}))


def wait_for(child: int, seconds: float) -> bool:
    """Wait until a child ends, or for so long; whether it ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def known() -> dict[str, str]:
    """What earlier runs found, by key."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return {tree["key"]: tree["result"] for tree in map(json.loads, lines)}


def key(*parts: object) -> str:
    """A digest of what decides a result."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]


def remember(name: str, result: str, mistake: Mistake | None = None) -> str:
    """Keep a result for later runs."""
    RESULTS.parent.mkdir(exist_ok=True)
    about = {
        "key": name,
        "result": result,
        "file": mistake.file if mistake else "",
        "after": mistake.after if mistake else "",
    }
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(about) + "\n")
    return result


def judge(mistake: Mistake, path: Path, copy: Path) -> str:
    """'caught', 'not caught', or that the tests fail without the mistake."""
    names = mistake.tests.split()
    files = sorted({name.partition("::")[0] for name in names})
    tests = "".join((copy / name).read_text(encoding="utf-8") for name in files)
    good = path.read_text(encoding="utf-8")
    own = key(mistake, good, tests)
    done = known()
    if own in done:
        return done[own]
    path.write_text(good.replace(mistake.before, mistake.after), encoding="utf-8")
    try:
        # The quick ones first: most mistakes are caught by them.
        failed = failing(copy, names, "-m", "not slow") or failing(copy, names, "-m", "slow")
    finally:
        path.write_text(good, encoding="utf-8")
    result = "not caught"
    if failed:
        result = "its tests fail without it too" if failing(copy, failed) else "caught"
    return remember(own, result, mistake)


def load_libraries() -> None:
    """Import what the tests import, but nothing of ours: each run imports that from the copy."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    del os.environ["ORT_DISABLE_TELEMETRY"]  # what our code does about it is tested
    assert not any(name.partition(".")[0] == "rmreader" for name in sys.modules)
    gc.freeze()


def main() -> int:
    """Run the mistakes that are asked for."""
    words = [word for word in sys.argv[1:] if word != "--dry"]
    chosen = [m for m in MISTAKES if not words or any(word in f"{m.file} {m.before}" for word in words)]
    lost = {mistake: why for mistake in chosen if (why := why_not(mistake)) is not None}
    for mistake, why in lost.items():
        print(f"{mistake.file}: {mistake.before!r}: {why}; bring the list in tests/mutants.py up to date")
    if lost:
        return 2
    if "--dry" in sys.argv:
        print(f"each of {len(chosen)} mistakes can be planted")
        return 0
    count = {"caught": 0}
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / "copy"
        ignore = shutil.ignore_patterns(".git", ".venv", "__pycache__", "build", "runs", ".*_cache", ".hypothesis")
        shutil.copytree(ROOT, copy, ignore=ignore)
        # Compiled once. A file that is changed, however quickly, is known by its content.
        compileall.compile_dir(copy, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        load_libraries()
        for number, mistake in enumerate(chosen, start=1):
            path, began = place(mistake, copy), time.monotonic()
            assert path is not None
            result = judge(mistake, path, copy)
            count[result] = count.get(result, 0) + 1
            line = f"{mistake.file}: {mistake.before.strip()!r} -> {mistake.after.strip()!r}"
            print(f"{number}/{len(chosen)} {result} ({time.monotonic() - began:.0f} s): {line}", flush=True)
    print(", ".join(f"{number} {result}" for result, number in count.items()), f"of {len(chosen)}")
    return 0 if count["caught"] == len(chosen) else 1


if __name__ == "__main__":
    raise SystemExit(main())
