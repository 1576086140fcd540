// Ask, highlight the answer in place, choose among the candidates; or say that there is none, and show the best guess
// only when asked to. The server counts code points and JavaScript counts UTF-16 units, so every text that offsets
// point into is cut up as an array of code points.
import { Attention, spanOf, unpacked, wordsOf } from "./attention.js";
import { $, Refusal, bring, complain, count, element, percent, post, reveal } from "./common.js";
import { SHOWN, complaintAbout, distinct, partAround, placed, whereabouts } from "./answers.js";
import { Tour } from "./tour.js";
import { packLink, textOf, unpackLink } from "./texts.js";

const KEPT = 30; // earlier questions
const attention = new Attention(), tour = new Tour();
let limits = { max_passage: Infinity, max_question: Infinity, max_explain: 4000 };
let samples = [];
let asked = null; // the last question answered: { question, passage, points, answers, doubt, guess, shown, shelf, read, link }
let earlier = []; // questions answered, the latest first: { question, passage, shelf, said }; gone with the page
let turn = 0; // answers to anything but the latest question are dropped

const onShelf = () => document.querySelector("input[name=source]:checked").value === "shelf";

async function ask() {
  const question = $("question").value, shelf = onShelf(), passage = shelf ? "" : $("passage").value, mine = ++turn;
  $("error").hidden = true;
  $("ask").disabled = true;
  $("ask").textContent = "Reading…";
  try {
    const complaint = complaintAbout(question, shelf ? null : passage, limits);
    if (complaint) throw new Refusal(complaint);
    const { answers, no_answer: doubt, guess } = await (shelf ? post("v1/ask", { question, top: 3 }) : post("v1/answer", { question, passage, top: 2 * SHOWN }));
    if (mine !== turn) return;
    asked = { question, passage, points: [...passage], answers: shelf ? answers : distinct(answers), doubt, guess, shelf, shown: null };
    remember();
    tour.close();
    showAnswers();
    offerLink();
    reveal($("best"));
  } catch (error) {
    if (mine !== turn) return;
    fail(error);
  } finally {
    if (mine === turn) {
      $("ask").disabled = false;
      $("ask").textContent = "Ask";
    }
  }
  if (!$("why").hidden) await explainAnew();
}

// What is shown would be taken for the answer to what has just failed.
function fail(error) {
  asked = null;
  showEarlier();
  closeWhy();
  tour.close();
  if (!$("result").hidden) showPassage();
  $("result").hidden = true;
  complain(error);
}

function showAnswers() {
  const { answers, doubt, guess, shelf } = asked;
  $("result").hidden = false;
  $("passage").hidden = true;
  $("reading").hidden = false;
  $("edit").hidden = shelf;
  $("text").hidden = shelf;
  $("candidates").hidden = shelf || !answers.length;
  $("places").hidden = !shelf || !answers.length;
  $("guess-button").hidden = !guess;
  $("best").className = answers.length ? "best" : "best doubt";
  $("answers").replaceChildren(...answers.map((answer, place) => {
    const bar = element("i"), sure = percent(answer.confidence);
    bar.style.setProperty("--share", answer.confidence);
    return item(place, { className: "row", title: answer.text, ariaLabel: `${answer.text}: ${sure} sure` },
      element("span", { className: "text" }, answer.text), element("span", { className: "bar" }, bar), element("span", {}, sure));
  }));
  $("places").replaceChildren(...(shelf ? answers.map((answer, place) => item(place, {}, ...placed(answer))) : []));
  $("guess").hidden = true;
  if (answers.length) return choose(0, !shelf);
  const why = doubt !== undefined ? [`Not in ${shelf ? "these documents" : "this passage"}`, `${percent(doubt)} sure`]
    : shelf ? ["Not in these documents", "None of them has a word of the question."] : ["No answer", "Nothing in the passage could be pointed at."];
  $("best").replaceChildren(why[0], element("small", {}, why[1]));
  showGuess(false);
}

function item(place, properties, ...children) {
  const button = element("button", { type: "button", ...properties }, ...children);
  button.addEventListener("click", () => choose(place));
  return element("li", {}, button);
}

function choose(place, open = true) {
  const answer = asked.answers[place], rank = place ? `candidate ${place + 1}, ` : "";
  const where = asked.shelf ? `, in ${answer.document}` : "";
  $("best").replaceChildren(answer.text, element("small", {}, `${rank}${percent(answer.confidence)} sure${where}`));
  for (const list of ["answers", "places"]) {
    [...$(list).children].forEach((one, i) => one.firstChild.setAttribute("aria-pressed", open && i === place));
  }
  point(open ? answer : null);
}

function showGuess(open) {
  const { guess } = asked;
  $("guess-button").setAttribute("aria-expanded", open);
  $("guess-button").textContent = open ? "Hide the best guess" : "Show the best guess";
  $("guess").hidden = !open;
  const where = open && asked.shelf ? `, in ${whereabouts(guess)}` : "";
  $("guess").replaceChildren(...(open ? [guess.text, element("small", {}, `only a guess, ${percent(guess.confidence)} sure${where}`)] : []));
  point(open ? guess : null);
}

// Mark an answer in the passage, or nothing; a guess in its own way. On the shelf its document is opened first.
function point(answer) {
  if (asked.shelf) return openDocument(answer);
  asked.shown = answer;
  $("why-button").hidden = !answer;
  if (!answer) {
    closeWhy();
    return $("reading").replaceChildren(asked.passage);
  }
  mark(answer, answer === asked.guess);
}

function mark({ start, end }, guessed) {
  const cut = (from, to) => asked.points.slice(from, to).join("");
  const place = element("mark", { className: guessed ? "guess" : "" }, cut(start, end));
  $("reading").replaceChildren(cut(0, start), place, cut(end));
  bring(place, $("reading"));
  if (!$("why").hidden && attention.holds(asked.shown)) attention.point(asked.shown);
}

// The text of a document round an answer, as the index holds it, with the passage that was read.
async function openDocument(answer) {
  const mine = asked, guessed = answer !== null && answer === asked.guess;
  Object.assign(asked, { opening: answer, shown: null });
  closeWhy();
  tour.close();
  $("why-button").hidden = $("text").hidden = true;
  if (!answer) return arrange();
  try {
    const { id, start, end } = answer.passage, { text, ...read } = await post("v1/place", { passage: id });
    if (mine !== asked || asked.opening !== answer) return;
    Object.assign(asked, { points: [...text], read, shown: { ...answer, start: read.start + start, end: read.start + end } });
    $("why-button").hidden = $("text").hidden = false;
    $("passage-label").textContent = whereabouts(answer);
    $("length").textContent = "";
    arrange();
    mark(asked.shown, guessed);
    reveal($("text"));
  } catch (error) {
    if (mine === asked) complain(error);
  }
}

function showPassage() {
  $("passage").hidden = false;
  $("reading").hidden = $("edit").hidden = true;
}

// What belongs to a text of one's own is there only while one is asked about.
function arrange() {
  const shelf = onShelf();
  $("try").hidden = $("suggestions").hidden = $("file-button").hidden = shelf;
  $("form").classList.toggle("alone", shelf && $("text").hidden);
}

function changeSource() {
  asked = null;
  showEarlier();
  turn++;
  closeWhy();
  tour.close();
  $("error").hidden = $("result").hidden = true;
  $("ask").disabled = false;
  $("ask").textContent = "Ask";
  $("text").hidden = onShelf();
  $("passage-label").textContent = "Passage";
  countCharacters();
  showPassage();
  arrange();
}

// The attention to what is shown; null where that is no longer the question answered when it comes.
async function attend() {
  const mine = asked, answer = asked.shown;
  if (!answer) return null;
  const { from, part } = partAround(asked, answer, limits.max_explain);
  const explained = await post("v1/explain", { question: asked.question, passage: part.join(""), packed: true });
  return mine === asked ? { explained: unpacked(explained), part, from, answer } : null;
}

async function explain() {
  const attended = await attend();
  if (!attended) return false;
  const { explained, part, from, answer } = attended;
  $("why").hidden = false;
  const begin = from + explained.passage[0].start, end = from + explained.passage.at(-1).end;
  const whole = !/[\p{L}\p{N}]/u.test(asked.points.slice(0, begin).concat(asked.points.slice(end)).join(""));
  $("why-note").textContent = whole ? "" : `in the ${(end - begin).toLocaleString("en")} characters round the answer`;
  attention.show(explained, [...asked.question], part, from, answer);
  return true;
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
    if (explained.rounds.length < 2) throw new Refusal("This reader reads in a single round, so it never looks again: there is no reattention to show.");
    const rivals = asked.shelf ? [] : asked.answers.filter((other) => other !== answer);
    const spans = [answer, ...rivals].map((one) => spanOf(explained.passage, from, one)).filter(([first, end]) => end > first);
    const strips = { question: wordsOf(explained.question, [...asked.question]), passage: wordsOf(explained.passage, part) };
    tour.open(explained, strips, spans);
  });
}

async function busy(button, work) {
  const mine = asked;
  button.disabled = true;
  try {
    await work();
  } catch (error) {
    if (mine === asked || button.id === "tour-button") complain(error);
  } finally {
    button.disabled = false;
  }
}

function remember() {
  const { question, passage, shelf, answers } = asked;
  const same = (one) => one.question === question && one.shelf === shelf && one.passage === passage;
  earlier = [{ question, passage, shelf, said: answers[0]?.text ?? "no answer" }, ...earlier.filter((one) => !same(one))].slice(0, KEPT);
  showEarlier();
}

// To ask again; the one that is shown is not among them until another is.
function showEarlier() {
  const before = earlier.slice(asked ? 1 : 0);
  $("history").hidden = !before.length;
  $("earlier").replaceChildren(...before.map((one) => {
    const button = element("button", { type: "button" }, one.question, element("small", {}, one.said));
    button.addEventListener("click", () => askAbout(one));
    return element("li", {}, button);
  }));
}

// Ask about a text that is not in its field yet, or about the shelf.
function askAbout({ question, passage, shelf }) {
  const source = document.querySelector(`input[name=source][value=${shelf ? "shelf" : "text"}]`);
  if (!source.checked) source.click();
  if (!shelf && passage !== $("passage").value) setPassage(passage);
  $("question").value = question;
  return ask();
}

function setPassage(text) {
  $("passage").value = text;
  passageChanged();
}

function passageChanged() {
  countCharacters();
  $("suggestions").replaceChildren();
  for (const button of $("samples").children) button.setAttribute("aria-pressed", "false");
}

// The address never names another question than the one that is shown.
async function offerLink() {
  const mine = asked, { question, passage, shelf } = asked;
  $("link-note").textContent = "";
  const link = await packLink(shelf ? { question } : { question, passage });
  if (mine !== asked) return;
  asked.link = $("link").href = link;
  if (location.hash && location.hash !== link) history.replaceState(null, "", location.pathname + location.search);
}

async function copyLink() {
  $("link-note").textContent = "It is in the address bar now.";
  try {
    await navigator.clipboard.writeText(new URL($("link").href, location).href);
    $("link-note").textContent = "Copied.";
  } catch { /* not allowed, or not over plain HTTP: the address bar has it */ }
}

async function openLink() {
  if (location.hash === asked?.link) return;
  try {
    const linked = await unpackLink(location.hash, 4 * (limits.max_passage + limits.max_question) + 100);
    if (!linked) return;
    const shelf = linked.passage === undefined;
    if (shelf && !limits.shelf) throw new Refusal("The link asks a shelf of documents, and this server has none.");
    await askAbout({ ...linked, shelf });
  } catch (error) {
    fail(error);
  }
}

async function openFile(file) {
  if (!file) return;
  try {
    const text = await textOf(file, limits.max_passage);
    document.querySelector("input[name=source][value=text]").checked = true;
    changeSource();
    setPassage(text);
    $("question").focus();
  } catch (error) {
    fail(error instanceof Refusal ? error : new Refusal(`“${file.name}” cannot be read; is it a folder?`));
  }
}

function countCharacters() {
  const length = [...$("passage").value].length;
  $("length").textContent = length ? count(length, "character", "characters") : "";
}

function takeSample(sample, button) {
  setPassage(sample.passage);
  button.setAttribute("aria-pressed", "true");
  $("suggestions").replaceChildren(...sample.questions.map((question) => {
    const chip = element("button", { type: "button" }, question);
    chip.addEventListener("click", () => {
      $("question").value = question;
      ask();
    });
    return chip;
  }));
  $("question").value = sample.questions[0];
  return ask();
}

function listen() {
  $("form").addEventListener("submit", (event) => (event.preventDefault(), ask()));
  $("edit").addEventListener("click", () => (showPassage(), $("passage").focus()));
  $("guess-button").addEventListener("click", () => showGuess($("guess").hidden));
  $("why-button").addEventListener("click", toggleWhy);
  $("tour-button").addEventListener("click", startTour);
  $("link").addEventListener("click", copyLink);
  $("sources").addEventListener("change", changeSource);
  $("file-button").addEventListener("click", () => $("file").click());
  $("file").addEventListener("change", () => (openFile($("file").files[0]), ($("file").value = "")));
  $("passage").addEventListener("input", passageChanged);
  addEventListener("hashchange", openLink);
  const card = $("text"), files = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => files(event) && (event.preventDefault(), card.classList.add("over")));
  addEventListener("dragleave", (event) => !event.relatedTarget && card.classList.remove("over"));
  addEventListener("drop", (event) => {
    card.classList.remove("over");
    if (files(event)) event.preventDefault(), openFile(event.dataTransfer.files[0]);
  });
}

async function start() {
  listen();
  countCharacters();
  [samples, limits] = await Promise.all(["samples.json", "about.json"].map((file) => fetch(file).then((r) => r.json())));
  $("about").textContent = limits.reader ? `Reader “${limits.reader}”` : "";
  if (limits.shelf) {
    $("sources").hidden = false;
    $("shelf-label").textContent = `The documents in “${limits.shelf}”`;
    $("sources").querySelector("[value=shelf]").click();
  }
  $("samples").replaceChildren(...samples.map((sample) => {
    const button = element("button", { type: "button" }, sample.title);
    button.addEventListener("click", () => takeSample(sample, button));
    return button;
  }));
  await openLink();
}

start().catch(() => complain(new Refusal("The server does not answer. Is it still running?")));
