// Ask, mark the answer in place, choose among the candidates; or say that there is none, and show
// the best guess only when asked to.
import { Attention, spanOf, unpacked, wordsOf } from "./attention.js";
import {
  $, Refusal, bring, complain, count, element, percent, post, postLong, readFile, reveal,
} from "./common.js";
import { SHOWN, complaintAbout, partAround, placed, whereabouts, worthShowing } from "./answers.js";
import { drawPage, hasPage, showDocuments } from "./documents.js";
import { isHalfRefused, sureness } from "./doubt.js";
import { forget, keep, recall } from "./kept.js";
import { Text } from "./points.js";
import { tell } from "./plain.js";
import { Tour } from "./tour.js";
import { packLink, unpackLink } from "./texts.js";

const KEPT = 30; // earlier questions
const EDITABLE = 300_000; // characters of a file that a field holds; more are only shown
const VIEW = 60_000; // characters of a text that are shown at once
const SOON = 400; // milliseconds before a person is told to wait
const attention = new Attention();
const tour = new Tour();
let limits = { max_passage: Infinity, max_question: Infinity, max_explain: 4000 };
let samples = [];
// The last question answered: question, passage, text (what is shown, cut by code points), answers,
// no_answer, guess, needs, shelf, shown (the answer that is marked), read (what was read of a document)
// and link.
let asked = null;
let earlier = []; // questions answered, the latest first: { question, passage, shelf, said }
let browsed = -1; // the earlier question that the arrow keys have brought back
let turn = 0; // answers to anything but the latest question are dropped
let work = null; // what stops the reading that is going on
let held = null; // a text that is too long for its field
let saving = 0;

const sourceOf = () => document.querySelector("input[name=source]:checked").value;
const onShelf = () => sourceOf() === "shelf";
const passageText = () => held ?? $("passage").value;

// Asking

async function ask() {
  const question = $("question").value;
  const shelf = onShelf();
  const passage = shelf ? "" : passageText();
  const mine = ++turn;
  $("error").hidden = true;
  const done = wait("Reading…");
  try {
    const complaint = complaintAbout(question, shelf ? null : passage, limits);
    if (complaint) throw new Refusal(complaint);
    const { signal } = work;
    const found = await request(question, passage, shelf, signal);
    if (mine !== turn) return;
    asked = {
      question, passage, shelf, text: new Text(passage), no_answer: found.no_answer,
      guess: found.guess, needs: found.needs, answers: worthShowing(found.answers), shown: null,
    };
    remember();
    tour.close();
    showAnswers();
    offerLink();
    reveal($("told"));
    if (shelf) showDocuments().catch(complain);
  } catch (error) {
    if (mine === turn) stopOrFail(error);
    return;
  } finally {
    done();
  }
  if (!$("why").hidden) await explainAnew();
}

function request(question, passage, shelf, signal) {
  if (shelf) return post("v1/ask", { question, top: 3 }, signal);
  const body = { question, passage, top: 2 * SHOWN };
  // No character is more than two units, so this many are certainly not too many.
  const isLong = passage.length > limits.max_passage && new Text(passage).length > limits.max_passage;
  if (!isLong) return post("v1/answer", body, signal);
  $("waiting").hidden = false;
  return postLong("v1/long-answer", body, signal, (share) => ($("progress").value = share));
}

// Show that something is being read, and how to stop it; returns what ends that.
function wait(told) {
  work?.abort();
  const mine = (work = new AbortController());
  $("ask").disabled = true;
  $("ask").textContent = "Reading…";
  $("progress-label").textContent = told;
  $("progress").removeAttribute("value");
  const soon = setTimeout(() => ($("waiting").hidden = false), SOON);
  return () => {
    clearTimeout(soon);
    if (work !== mine) return;
    work = null;
    $("waiting").hidden = true;
    $("ask").disabled = false;
    $("ask").textContent = "Ask";
  };
}

function cancel() {
  work?.abort();
  $("question").focus();
}

function stopOrFail(error) {
  if (error.name === "AbortError") return fail(new Refusal("Cancelled; nothing was answered."));
  fail(error);
}

// What is shown would be taken for the answer to what has just failed.
function fail(error) {
  clearAnswer();
  complain(error);
}

function clearAnswer() {
  asked = null;
  showEarlier();
  closeWhy();
  tour.close();
  if (!$("result").hidden) showPassage();
  $("result").hidden = true;
}

// Answers

function showAnswers() {
  const { question, answers, guess, shelf } = asked;
  const isPerhaps = isHalfRefused(asked);
  $("result").hidden = false;
  $("asked").textContent = question;
  $("passage").hidden = true;
  $("reading").hidden = false;
  $("edit").hidden = shelf;
  $("text").hidden = shelf;
  $("candidates").hidden = shelf || answers.length < 2;
  $("places").hidden = !shelf || !answers.length;
  $("guess-button").hidden = !guess || isPerhaps;
  $("guess").hidden = $("runner-up").hidden = $("needs").hidden = true;
  $("answers").replaceChildren(...(shelf ? [] : answers.map(candidate)));
  $("places").replaceChildren(
    ...(shelf ? answers.map((answer, place) => item(place, {}, ...placed(answer))) : []),
  );
  if (answers.length) return choose(0, !shelf);
  if (isPerhaps) return showPerhaps();
  showRefusal();
}

function candidate(answer, place) {
  const bar = element("i");
  bar.style.setProperty("--share", answer.confidence);
  return item(
    place,
    { className: "row", title: answer.text },
    element("span", { className: "text" }, answer.text),
    " ",
    element("span", { className: "bar" }, bar),
    element("span", {}, sureness(answer)),
  );
}

function item(place, properties, ...children) {
  const button = element("button", { type: "button", ...properties }, ...children);
  button.addEventListener("click", () => choose(place));
  return element("li", {}, button);
}

// Say an answer: the word of doubt before it where it is the weakest, and its figure after it.
function say(answer, ...notes) {
  const text = answer.doubt === "perhaps" ? `Perhaps: ${answer.text}` : answer.text;
  $("best").className = `best ${answer.doubt}`;
  $("best").replaceChildren(text, " ", element("small", {}, notes.filter(Boolean).join(", ")));
}

function choose(place, open = true) {
  const answer = asked.answers[place];
  const rank = place ? `candidate ${place + 1}` : "";
  const sure = answer.doubt === "perhaps" ? percent(answer.confidence) : sureness(answer);
  say(answer, rank, sure, asked.shelf && `in ${answer.document}`);
  const second = asked.answers[1];
  $("runner-up").hidden = place > 0 || answer.doubt !== "perhaps" || !second;
  $("runner-up").textContent = second ? `Or perhaps: ${second.text} (${percent(second.confidence)})` : "";
  for (const list of ["answers", "places"]) {
    [...$(list).children].forEach((one, at) => {
      one.firstChild.setAttribute("aria-pressed", open && at === place);
    });
  }
  point(open ? answer : null);
}

// The refusal is less than half sure, so the guess is told, as a guess.
function showPerhaps() {
  const { guess, no_answer: none } = asked;
  const where = asked.shelf ? "these documents" : "this passage";
  const source = asked.shelf && `in ${whereabouts(guess)}`;
  say({ ...guess, doubt: "perhaps" }, `${percent(none)} that it is not in ${where}`, source);
  point(guess);
}

function showRefusal() {
  const { no_answer: none, needs, shelf } = asked;
  const where = shelf ? "these documents" : "this passage";
  const nothing = shelf
    ? ["Not in these documents", "None of them has a word of the question."]
    : ["No answer", "Nothing in the passage could be pointed at."];
  const [told, note] = none === undefined ? nothing : [`Not in ${where}`, `${percent(none)} sure`];
  $("best").className = "best doubt";
  $("best").replaceChildren(told, " ", element("small", {}, note));
  $("needs").hidden = !needs;
  $("needs").textContent = needs ?? "";
  showGuess(false);
}

function showGuess(open) {
  const { guess } = asked;
  $("guess-button").setAttribute("aria-expanded", open);
  $("guess-button").textContent = open ? "Hide the best guess" : "Show the best guess";
  $("guess").hidden = !open;
  const where = open && asked.shelf ? `, in ${whereabouts(guess)}` : "";
  const note = open && `only a guess, ${percent(guess.confidence)}${where}`;
  $("guess").replaceChildren(...(open ? [guess.text, " ", element("small", {}, note)] : []));
  point(open ? guess : null);
}

// Mark an answer in the passage, or nothing; a guess in its own way. Of documents, the answer's own
// is opened first.
function point(answer) {
  $("copy").hidden = !answer && !asked.answers.length;
  if (asked.shelf) return openDocument(answer);
  asked.shown = answer;
  $("why-button").hidden = !answer;
  if (!answer) {
    closeWhy();
    return showPart(null);
  }
  mark(answer);
}

function mark(answer) {
  showPart(answer);
  if ($("why").hidden || !attention.holds(asked.shown)) return;
  attention.point(asked.shown);
}

// The text with an answer marked; of a long one, what is round the answer.
function showPart(answer) {
  const { text } = asked;
  const { start, end } = answer ?? { start: 0, end: 0 };
  const isWhole = text.length <= 2 * VIEW;
  const from = isWhole ? 0 : Math.max(0, start - VIEW / 2);
  const to = isWhole ? text.length : Math.min(text.length, end + VIEW / 2);
  $("passage-note").textContent = isWhole ? "" : partNote(from, to, text.length);
  if (!answer) return $("reading").replaceChildren(text.slice(from, to));
  const kind = answer === asked.guess ? "guess" : answer.doubt;
  const place = element("mark", { className: kind }, text.slice(start, end));
  $("reading").replaceChildren(text.slice(from, start), place, text.slice(end, to));
  bring(place, $("reading"));
}

function partNote(from, to, length) {
  const [first, last, all] = [from + 1, to, length].map((at) => at.toLocaleString("en"));
  return `Characters ${first} to ${last} of ${all} are shown; all of them are read.`;
}

// Documents

// The text of a document round an answer, as the index holds it, with the passage that was read;
// of a PDF its page.
async function openDocument(answer) {
  const mine = asked;
  Object.assign(asked, { opening: answer, shown: null });
  closeWhy();
  tour.close();
  $("why-button").hidden = $("text").hidden = true;
  if (!answer) return arrange();
  try {
    const { id, start, end, sentence_start: begin } = answer.passage;
    const { text, lines, ...read } = await post("v1/place", { passage: id, start, end });
    if (mine !== asked || asked.opening !== answer) return;
    const shift = (at) => read.start + at;
    const shown = { ...answer, start: shift(start), end: shift(end), sentence_start: shift(begin) };
    Object.assign(asked, { text: new Text(text), read, shown });
    if (answer === asked.guess) asked.guess = asked.opening = asked.shown;
    $("why-button").hidden = $("text").hidden = false;
    $("passage-label").textContent = whereabouts({ ...answer, lines });
    $("length").textContent = "";
    arrange();
    mark(asked.shown);
    offerLink();
    await openPage(asked.shown);
    reveal($("text"));
  } catch (error) {
    if (mine === asked) complain(error);
  }
}

// The page of a PDF, where it can be drawn; else the text is there, and why the page is not.
async function openPage(answer) {
  const mine = asked;
  $("views").hidden = true;
  showView("text");
  if (!hasPage(answer)) return;
  try {
    await drawPage(answer);
    if (mine !== asked || asked.shown !== answer) return;
    $("views").hidden = false;
    showView(document.querySelector("input[name=view]:checked").value);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    $("passage-note").textContent = `The page itself cannot be shown. ${error.message}`;
  }
}

function showView(view) {
  $("sheet").hidden = view !== "page";
  $("reading").hidden = view === "page";
  const place = view === "page" ? $("sheet-areas").firstChild : $("reading").querySelector("mark");
  if (place) bring(place, view === "page" ? $("sheet") : $("reading"));
}

// The passage

function showPassage() {
  $("sheet").hidden = $("views").hidden = true;
  $("passage-note").textContent = "";
  $("edit").hidden = held === null;
  $("passage").hidden = held !== null;
  $("reading").hidden = held === null;
  if (held === null) return;
  $("reading").replaceChildren(held.slice(0, VIEW));
  $("passage-note").textContent =
    "It is too long to be edited here: its beginning is shown, and all of it is read.";
}

// Back to the field. The answer was to the text as it is now, so it goes.
function edit() {
  held = null;
  clearAnswer();
  showPassage();
  countCharacters();
  $("passage").focus();
}

function setPassage(text, name = "") {
  held = text.length > EDITABLE ? text : null;
  $("passage").value = held === null ? text : "";
  passageChanged(name);
  showPassage();
}

function passageChanged(name = "") {
  countCharacters(name);
  $("suggestions").replaceChildren();
  for (const button of $("samples").children) button.setAttribute("aria-pressed", "false");
  save();
}

function countCharacters(name = "") {
  const { length } = new Text(passageText());
  const told = length ? count(length, "character", "characters") : "";
  $("length").textContent = [name, told].filter(Boolean).join(" · ");
}

// What belongs to a text of one's own is there only while one is asked about.
function arrange() {
  const shelf = onShelf();
  $("try").hidden = $("suggestions").hidden = $("file-button").hidden = shelf;
  $("documents").hidden = !shelf;
  $("form").classList.toggle("alone", shelf && $("text").hidden);
}

function changeSource() {
  turn++;
  work?.abort();
  clearAnswer();
  $("error").hidden = true;
  $("text").hidden = onShelf();
  $("passage-label").textContent = "Passage";
  countCharacters();
  showPassage();
  arrange();
}

async function openFile(file) {
  if (!file) return;
  const mine = ++turn;
  $("error").hidden = true;
  const done = wait(`Reading ${file.name}…`);
  try {
    if (file.size > limits.max_upload) {
      const [size, most] = [file.size, limits.max_upload].map((one) => one.toLocaleString("en"));
      throw new Refusal(`“${file.name}” has ${size} bytes; the most is ${most}: open a part of it.`);
    }
    const { signal } = work;
    await file.slice(0, 1).arrayBuffer().catch(() => {
      throw new Refusal(`“${file.name}” cannot be read; is it a folder?`);
    });
    const { text, note } = await readFile(file, signal);
    if (mine !== turn) return;
    document.querySelector("input[name=source][value=text]").checked = true;
    changeSource();
    setPassage(text, file.name);
    if (note) $("passage-note").textContent = note;
    $("question").focus();
  } catch (error) {
    if (mine === turn) stopOrFail(error);
  } finally {
    done();
  }
}

// Why

// The attention to what is shown; null where that is no longer the question answered when it comes.
async function attend() {
  const mine = asked;
  const answer = asked.shown;
  if (!answer) return null;
  const { from, part } = partAround(asked, answer, limits.max_explain);
  const body = { question: asked.question, passage: part, packed: true };
  const explained = await post("v1/explain", body);
  return mine === asked ? { explained: unpacked(explained), part, from, answer } : null;
}

async function explain() {
  const attended = await attend();
  if (!attended) return false;
  const { explained, part, from, answer } = attended;
  $("why").hidden = false;
  $("why-note").textContent = partRead(explained.passage, from);
  $("plain").replaceChildren(...tell(explained, answer, from));
  attention.show(explained, [...asked.question], [...part], from, answer);
  return true;
}

// Which part was looked at, where it is not all of the text.
function partRead(words, from) {
  const begin = from + words[0].start;
  const end = from + words.at(-1).end;
  const isWord = (text) => /[\p{L}\p{N}]/u.test(text);
  if (!isWord(asked.text.slice(0, begin)) && !isWord(asked.text.slice(end))) return "";
  return `in the ${(end - begin).toLocaleString("en")} characters round the answer`;
}

// The attention to another question is still shown: where this one's does not come, nothing is.
async function explainAnew() {
  const mine = asked;
  try {
    await explain();
  } catch (error) {
    if (mine !== asked) return;
    closeWhy();
    complain(error);
  }
}

function closeWhy() {
  $("why").hidden = true;
  $("why-button").setAttribute("aria-expanded", "false");
  $("why-button").textContent = "Show what it looked at";
}

async function toggleWhy() {
  if (!$("why").hidden) return closeWhy();
  await busy($("why-button"), async () => {
    if (!(await explain())) return;
    $("why-button").setAttribute("aria-expanded", "true");
    $("why-button").textContent = "Hide what it looked at";
    reveal($("why"), "start");
    $("why-label").focus({ preventScroll: true });
  });
}

// Of what was asked; where nothing was, or what was has no answer, of the first sample.
async function startTour() {
  await busy($("tour-button"), async () => {
    if (!asked?.shown) {
      if (onShelf()) document.querySelector("input[name=source][value=text]").click();
      await takeSample(samples[0], $("samples").firstChild);
    }
    const attended = asked && (await attend());
    if (!attended) return;
    const { explained, part, from, answer } = attended;
    if (explained.rounds.length < 2) {
      throw new Refusal(
        "This reader reads in a single round, so it never looks again: " +
          "there is no reattention to show.",
      );
    }
    const rivals = asked.shelf ? [] : asked.answers.filter((other) => other !== answer);
    const spans = [answer, ...rivals]
      .map((one) => spanOf(explained.passage, from, one))
      .filter(([first, end]) => end > first);
    const question = wordsOf(explained.question, [...asked.question]);
    const passage = wordsOf(explained.passage, [...part]);
    tour.open(explained, { question, passage }, spans);
  });
}

async function busy(button, doing) {
  const mine = asked;
  button.disabled = true;
  try {
    await doing();
  } catch (error) {
    if (mine === asked || button.id === "tour-button") complain(error);
  } finally {
    button.disabled = false;
  }
}

// Earlier questions

function remember() {
  const { question, passage, shelf, answers } = asked;
  const isSame = (one) =>
    one.question === question && one.shelf === shelf && one.passage === passage;
  const said = answers[0]?.text ?? "no answer";
  const others = earlier.filter((one) => !isSame(one));
  earlier = [{ question, passage, shelf, said }, ...others].slice(0, KEPT);
  browsed = -1;
  showEarlier();
  save();
}

// To ask again; the one that is shown is not among them until another is.
function showEarlier() {
  const before = earlier.slice(asked ? 1 : 0);
  $("history").hidden = !before.length;
  $("earlier").replaceChildren(...before.map((one) => {
    const said = element("small", {}, one.said);
    const button = element("button", { type: "button" }, one.question, " ", said);
    button.addEventListener("click", () => askAbout(one));
    return element("li", {}, button);
  }));
}

// Ask about a text that is not in its field yet, or about the documents.
function askAbout({ question, passage, shelf }) {
  const source = document.querySelector(`input[name=source][value=${shelf ? "shelf" : "text"}]`);
  if (!source.checked) source.click();
  if (!shelf && passage !== passageText()) setPassage(passage);
  setQuestion(question);
  return ask();
}

function setQuestion(question) {
  $("question").value = question;
  grow();
}

// The box is as high as what is in it, up to what the style allows.
function grow() {
  const box = $("question");
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight + 2}px`;
}

// Bring back an earlier question, or a later one of them; the last step is an empty box.
function browse(step) {
  const questions = [...new Set(earlier.map((one) => one.question))];
  const next = Math.max(-1, Math.min(questions.length - 1, browsed + step));
  if (next === browsed) return;
  browsed = next;
  setQuestion(questions[browsed] ?? "");
}

// Where a key would do nothing else in a box: at its edge, or in one that is empty.
function isAtEdge(box, key) {
  const at = box.selectionStart;
  if (at !== box.selectionEnd) return false;
  const isOneLine = box.clientHeight < 60 && !box.value.includes("\n");
  return isOneLine || at === (key === "ArrowUp" ? 0 : box.value.length);
}

function questionKey(event) {
  const steps = { ArrowUp: 1, ArrowDown: -1 };
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    ask();
  } else if (event.key in steps && isAtEdge($("question"), event.key)) {
    event.preventDefault();
    browse(steps[event.key]);
  }
}

// Ctrl+Enter asks from anywhere. Escape stops the reading, closes what is open, or goes to the
// question.
function pageKey(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    return ask();
  }
  if (event.key !== "Escape" || event.defaultPrevented) return;
  if (work) return cancel();
  if (!$("tour").hidden) return tour.close(true);
  if (!$("why").hidden) {
    closeWhy();
    return $("why-button").focus();
  }
  $("question").focus();
}

function save() {
  clearTimeout(saving);
  saving = setTimeout(saveNow, 200);
}

function saveNow() {
  clearTimeout(saving);
  saving = 0;
  keep({ passage: passageText(), question: $("question").value, earlier });
}

function forgetAll() {
  clearTimeout(saving);
  saving = 0;
  forget();
  earlier = asked ? earlier.slice(0, 1) : [];
  showEarlier();
  $("forget-note").textContent = "Forgotten.";
}

// Links and copies

// The address never names another question than the one that is shown.
async function offerLink() {
  const mine = asked;
  const { question, passage, shelf, opening } = asked;
  $("link-note").textContent = "";
  $("link").textContent = opening ? "Link to this place" : "Link to this question";
  const place = opening ? { document: opening.document, start: opening.start } : {};
  const link = await packLink(shelf ? { question, ...place } : { question, passage });
  if (mine !== asked) return;
  asked.link = $("link").href = link;
  const isOther = location.hash && location.hash !== link;
  if (isOther) history.replaceState(null, "", location.pathname + location.search);
}

async function copyLink() {
  const copied = await copy(new URL($("link").href, location).href);
  $("link-note").textContent = copied ? "Copied." : "It is in the address bar now.";
}

async function copyAnswer() {
  const text = (asked.shown ?? asked.opening ?? asked.answers[0]).text;
  const copied = await copy(text);
  $("link-note").textContent = copied ? "Copied." : "The browser does not allow it.";
}

// Over plain HTTP a browser has the old way alone.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const focused = document.activeElement;
    const box = element("textarea", { value: text, className: "aside", ariaHidden: "true" });
    document.body.append(box);
    box.select();
    const copied = document.execCommand("copy");
    box.remove();
    focused.focus();
    return copied;
  }
}

async function openLink() {
  if (location.hash === asked?.link) return;
  try {
    const most = 4 * (limits.max_passage + limits.max_question) + 100;
    const linked = await unpackLink(location.hash, Math.max(most, limits.max_upload));
    if (!linked) return;
    const shelf = linked.passage === undefined;
    if (shelf && !limits.shelf) {
      throw new Refusal("The link asks a shelf of documents, and this server has none.");
    }
    await askAbout({ ...linked, shelf });
    if (!shelf || !asked || linked.document === undefined) return;
    const isThere = (one) => one.document === linked.document && one.start === linked.start;
    const place = asked.answers.findIndex(isThere);
    if (place >= 0) choose(place);
  } catch (error) {
    fail(error);
  }
}

// The page

function takeSample(sample, button) {
  setPassage(sample.passage);
  button.setAttribute("aria-pressed", "true");
  $("suggestions").replaceChildren(...sample.questions.map((question) => {
    const chip = element("button", { type: "button" }, question);
    chip.addEventListener("click", () => {
      setQuestion(question);
      ask();
    });
    return chip;
  }));
  setQuestion(sample.questions[0]);
  return ask();
}

function listen() {
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  $("edit").addEventListener("click", edit);
  $("cancel").addEventListener("click", cancel);
  $("guess-button").addEventListener("click", () => showGuess($("guess").hidden));
  $("why-button").addEventListener("click", toggleWhy);
  $("tour-button").addEventListener("click", startTour);
  $("link").addEventListener("click", copyLink);
  $("copy").addEventListener("click", copyAnswer);
  $("forget").addEventListener("click", forgetAll);
  $("sources").addEventListener("change", changeSource);
  $("views").addEventListener("change", (event) => showView(event.target.value));
  $("question").addEventListener("keydown", questionKey);
  $("question").addEventListener("input", () => {
    browsed = -1;
    grow();
    save();
  });
  $("passage").addEventListener("input", () => passageChanged());
  addEventListener("keydown", pageKey);
  addEventListener("hashchange", openLink);
  addEventListener("pagehide", () => saving && saveNow());
  listenForFiles();
}

function listenForFiles() {
  const card = $("text");
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  $("file-button").addEventListener("click", () => $("file").click());
  $("file").addEventListener("change", () => {
    openFile($("file").files[0]);
    $("file").value = "";
  });
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    card.classList.add("over");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) card.classList.remove("over");
  });
  addEventListener("drop", (event) => {
    card.classList.remove("over");
    if (!hasFiles(event)) return;
    event.preventDefault();
    openFile(event.dataTransfer.files[0]);
  });
}

// What was there before the page was loaded again.
function restore() {
  const kept = recall();
  if (!kept) return;
  earlier = kept.earlier.filter((one) => !one.shelf || limits.shelf).slice(0, KEPT);
  setPassage(kept.passage);
  setQuestion(kept.question);
  showEarlier();
  if (onShelf()) changeSource();
}

async function start() {
  listen();
  const files = ["samples.json", "about.json"];
  const loaded = files.map((file) => fetch(file).then((response) => response.json()));
  [samples, limits] = await Promise.all(loaded);
  $("about").textContent = limits.reader ? `Reader “${limits.reader}”` : "";
  $("file").accept = ["text/*", ...limits.suffixes].join();
  if (limits.shelf) {
    $("sources").hidden = false;
    $("shelf-label").textContent = `The documents in “${limits.shelf}”`;
    $("sources").querySelector("[value=shelf]").click();
    showDocuments().catch(complain);
  }
  $("samples").replaceChildren(...samples.map((sample) => {
    const button = element("button", { type: "button" }, sample.title);
    button.addEventListener("click", () => takeSample(sample, button));
    return button;
  }));
  countCharacters();
  restore();
  await openLink();
}

start().catch(() => complain(new Refusal("The server does not answer. Is it still running?")));
