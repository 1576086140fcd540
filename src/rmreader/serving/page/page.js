// Ask, highlight the answer in place, choose among the candidates; or say that there is none, and show the best guess
// only when asked to. The server counts code points and JavaScript
// counts UTF-16 units, so every text that offsets point into is cut up as an array of code points.
import { Attention } from "./attention.js";

const $ = (id) => document.getElementById(id);
const attention = new Attention();
let limits = { max_passage: Infinity, max_question: Infinity, max_explain: 4000 };
let asked = null; // the last question answered: { question, passage, points, answers, doubt, guess, shown }
let turn = 0; // answers to anything but the latest question are dropped

class Refusal extends Error {}

async function post(path, body) {
  const headers = { "content-type": "application/json" };
  const key = $("key").value.trim();
  if (/[^!-~]/u.test(key)) throw new Refusal("An API key holds only unaccented letters, digits and ASCII signs, without spaces; check what was typed.");
  if (key) headers.authorization = `Bearer ${key}`;
  let response, data;
  try {
    response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
    data = await response.json();
  } catch {
    throw new Refusal("The server does not answer. Is it still running?");
  }
  if (response.status === 401) $("key-row").hidden = false;
  if (!response.ok) throw new Refusal(data.error?.message ?? `The server refused with status ${response.status}.`);
  return data;
}

function complain(error) {
  if (!(error instanceof Refusal)) console.error(error);
  $("error").textContent = error instanceof Refusal ? error.message : "Something went wrong on this page; reload it and try again.";
  $("error").hidden = false;
}

function complaintAbout(question, passage) {
  const long = (text, limit, what) => {
    const length = [...text].length;
    return length > limit && `The ${what} has ${length.toLocaleString("en")} characters; the most is ${limit.toLocaleString("en")}.`;
  };
  if (!passage.trim()) return "There is no passage yet. Paste some text, or take a sample.";
  if (!question.trim()) return "There is no question yet. Type one and press Enter.";
  return long(passage, limits.max_passage, "passage") || long(question, limits.max_question, "question");
}

async function ask() {
  const question = $("question").value, passage = $("passage").value, mine = ++turn;
  $("error").hidden = true;
  $("ask").disabled = true;
  $("ask").textContent = "Reading…";
  try {
    const complaint = complaintAbout(question, passage);
    if (complaint) throw new Refusal(complaint);
    const { answers, no_answer: doubt, guess } = await post("v1/answer", { question, passage, top: 6 });
    if (mine !== turn) return;
    asked = { question, passage, points: [...passage], answers, doubt, guess, shown: null };
    showAnswers();
  } catch (error) {
    if (mine !== turn) return;
    forget();
    complain(error);
  } finally {
    if (mine === turn) {
      $("ask").disabled = false;
      $("ask").textContent = "Ask";
    }
  }
  if (!$("why").hidden) await explainAnew();
}

// What is shown would be taken for the answer to the question that has just failed.
function forget() {
  asked = null;
  closeWhy();
  if (!$("result").hidden) showPassage();
  $("result").hidden = true;
}

const percent = (share) => (share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(share * 100)} %`);

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function showAnswers() {
  const { answers, doubt, guess } = asked;
  $("result").hidden = false;
  $("passage").hidden = true;
  $("reading").hidden = $("edit").hidden = false;
  $("candidates").hidden = !answers.length;
  $("guess-button").hidden = !guess;
  $("best").className = answers.length ? "best" : "best doubt";
  $("answers").replaceChildren(...answers.map((answer, place) => {
    const bar = element("i"), sure = percent(answer.confidence);
    bar.style.setProperty("--share", answer.confidence);
    const button = element("button", { type: "button", className: "row", title: answer.text },
      element("span", { className: "text" }, answer.text), element("span", { className: "bar" }, bar), element("span", {}, sure));
    button.setAttribute("aria-label", `${answer.text}: ${sure} sure`);
    button.addEventListener("click", () => choose(place));
    return element("li", {}, button);
  }));
  $("guess").hidden = true;
  if (answers.length) return choose(0);
  const why = doubt === undefined ? ["No answer", "Nothing in the passage could be pointed at."] : ["Not in this passage", `${percent(doubt)} sure`];
  $("best").replaceChildren(why[0], element("small", {}, why[1]));
  showGuess(false);
}

function choose(place) {
  const answer = asked.answers[place], rank = place ? `candidate ${place + 1}, ` : "";
  [...$("answers").children].forEach((item, i) => item.firstChild.setAttribute("aria-pressed", i === place));
  $("best").replaceChildren(answer.text, element("small", {}, `${rank}${percent(answer.confidence)} sure`));
  point(answer);
}

function showGuess(open) {
  $("guess-button").setAttribute("aria-expanded", open);
  $("guess-button").textContent = open ? "Hide the best guess" : "Show the best guess";
  $("guess").hidden = !open;
  $("guess").replaceChildren(...(open ? [asked.guess.text, element("small", {}, `only a guess, ${percent(asked.guess.confidence)} sure`)] : []));
  point(open ? asked.guess : null);
}

// Mark an answer in the passage, or nothing; a guess in its own way.
function point(answer) {
  asked.shown = answer;
  $("why-button").hidden = !answer;
  if (!answer) {
    closeWhy();
    return $("reading").replaceChildren(asked.passage);
  }
  const cut = (from, to) => asked.points.slice(from, to).join("");
  const mark = element("mark", { className: answer === asked.guess ? "guess" : "" }, cut(answer.start, answer.end));
  $("reading").replaceChildren(cut(0, answer.start), mark, cut(answer.end));
  const box = $("reading"), offset = mark.getBoundingClientRect().top - box.getBoundingClientRect().top;
  if (offset < 0 || offset > box.clientHeight - 40) box.scrollTop += offset - box.clientHeight / 3;
  if (!$("why").hidden && attention.holds(answer)) attention.point(answer);
}

function showPassage() {
  $("passage").hidden = false;
  $("reading").hidden = $("edit").hidden = true;
}

// Attention grows with the square of the passage, so of a long one only the part round the answer is shown.
function partAround({ points }, { start, end }) {
  if (points.length <= limits.max_explain) return { from: 0, part: points };
  let from = Math.max(0, Math.min(Math.floor((start + end - limits.max_explain) / 2), points.length - limits.max_explain));
  let to = from + limits.max_explain;
  const space = (at) => /\s/u.test(points[at] ?? " ");
  while (from > 0 && from < start && !space(from - 1)) from++;
  while (to < points.length && to > end && !space(to)) to--;
  return { from, part: points.slice(from, to) };
}

// Whether it is shown: what came back for a question that is no longer the one answered is dropped.
async function explain() {
  const mine = asked, answer = asked.shown;
  if (!answer) return false;
  const { from, part } = partAround(asked, answer);
  const explained = await post("v1/explain", { question: asked.question, passage: part.join(""), packed: true });
  if (mine !== asked) return false;
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
  $("why-button").disabled = true;
  const mine = asked;
  try {
    if (!(await explain())) return;
    $("why-button").setAttribute("aria-expanded", "true");
    $("why-button").textContent = "Hide what it looked at";
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    $("why").scrollIntoView({ block: "start", behavior: still ? "auto" : "smooth" });
  } catch (error) {
    if (mine === asked) complain(error);
  } finally {
    $("why-button").disabled = false;
  }
}

function countCharacters() {
  const length = [...$("passage").value].length;
  $("length").textContent = length ? `${length.toLocaleString("en")} characters` : "";
}

function takeSample(sample, button) {
  for (const other of $("samples").children) other.setAttribute("aria-pressed", other === button);
  $("passage").value = sample.passage;
  countCharacters();
  $("suggestions").replaceChildren(...sample.questions.map((question) => {
    const chip = element("button", { type: "button" }, question);
    chip.addEventListener("click", () => {
      $("question").value = question;
      ask();
    });
    return chip;
  }));
  $("question").value = sample.questions[0];
  ask();
}

async function start() {
  $("form").addEventListener("submit", (event) => (event.preventDefault(), ask()));
  $("edit").addEventListener("click", () => (showPassage(), $("passage").focus()));
  $("guess-button").addEventListener("click", () => showGuess($("guess").hidden));
  $("why-button").addEventListener("click", toggleWhy);
  $("passage").addEventListener("input", () => {
    countCharacters();
    $("suggestions").replaceChildren();
    for (const button of $("samples").children) button.setAttribute("aria-pressed", "false");
  });
  countCharacters();
  const [samples, about] = await Promise.all(["samples.json", "about.json"].map((file) => fetch(file).then((r) => r.json())));
  limits = about;
  $("about").textContent = about.reader ? `Reader “${about.reader}”` : "";
  $("samples").replaceChildren(...samples.map((sample) => {
    const button = element("button", { type: "button" }, sample.title);
    button.addEventListener("click", () => takeSample(sample, button));
    return button;
  }));
}

start().catch(() => complain(new Refusal("The server does not answer. Is it still running?")));
