// What the reader looked at, round by round: E (question words by passage words) and B (passage by passage), and the
// change that reattention made from one round to the next. Words light up what they attend to; the heat-map shows all.
import { $, bring } from "./common.js";
import { HeatMap, legend, thumbnail } from "./heatmap.js";

const WHAT =
  "Attention is how strongly the reader ties one word to another while it reads: " +
  "each word has 100 % to hand out. ";
const HOW = " Point at a word, or move with the arrow keys, to see where it goes.";
const LEADS = {
  interactive: `${WHAT}Here every word of the text spreads it over the words of your question.${HOW}`,
  self:
    `${WHAT}Here every word of the text spreads it over the whole text, ` +
    `which ties distant words together.${HOW}`,
};
// What stands beside the picture, for who has never seen a matrix.
const DOWN = {
  interactive: "↑ Each line is a word of your question. Dark where a word of the text looks at it.",
  self: "↑ Each line is a word of the text too. Dark where a word above looks at it.",
};

export class Attention {
  #data = null;
  #active = { side: "passage", index: 0 }; // stays until another word is focused or clicked
  #chosen = null; // of the rounds and changes; until one is, the last round is shown
  #map = new HeatMap($("map"), $("gutter"), $("scroller"), (row, column) => this.#onCell(row, column));

  constructor() {
    $("kinds").addEventListener("change", () => this.#render());
    $("rounds").addEventListener("change", (event) => { this.#chosen = Number(event.target.value); this.#render(); });
    for (const side of ["question", "passage"]) this.#listen(side);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#data && this.#render());
    new ResizeObserver(() => this.#data && !$("why").hidden && this.#drawMap()).observe($("why"));
    // What is closed has no size, so it is drawn, and scrolled to the answer, when it opens.
    $("numbers").addEventListener("toggle", () => {
      if (this.#data && $("numbers").open) this.#render();
      this.#bringAnswer();
    });
  }

  // question, passage: arrays of code points; from: where the passage part begins in the whole passage.
  show(explained, question, passage, from, answer) {
    this.#data = { ...explained, from, length: passage.length, matrices: new Map() };
    for (const [side, points] of Object.entries({ question, passage })) {
      $(`${side}-words`).replaceChildren(...wordsOf(explained[side], points));
      this.#words(side).forEach((word, index) => { word.tabIndex = index ? -1 : 0; word.dataset.index = index; });
    }
    this.#buildRounds();
    this.point(answer);
  }

  // Whether an answer lies in the part that is shown.
  holds(answer) {
    return this.#data && answer.start >= this.#data.from && answer.end <= this.#data.from + this.#data.length;
  }

  // Mark an answer and look at its first word.
  point(answer) {
    const [first, end] = this.#data.span = spanOf(this.#data.passage, this.#data.from, answer);
    this.#words("passage").forEach((word, i) => word.classList.toggle("answer", i >= first && i < end));
    this.#active = { side: "passage", index: first };
    this.#render();
    this.#bringAnswer();
  }

  // Scroll words and picture to what they explain.
  #bringAnswer() {
    const word = this.#data && this.#words("passage")[this.#data.span[0]];
    if (!word || !$("numbers").open) return;
    bring(word, $("passage-words"));
    this.#map.bring(this.#data.span[0]);
  }

  get #view() {
    return Math.min(this.#chosen ?? this.#data.rounds.length - 1, this.#data.rounds.length * 2 - 2);
  }

  get #kind() {
    return $("kinds").querySelector("input:checked").value;
  }

  // View t below the number of rounds is that round; the ones after are differences: round t+1 less round t.
  #matrix(kind, view) {
    const { rounds, question, passage, matrices } = this.#data;
    const key = `${kind} ${view}`;
    if (!matrices.has(key)) {
      const signed = view >= rounds.length, t = view - rounds.length;
      const values = signed ? rounds[t + 1][kind].map((value, at) => value - rounds[t][kind][at]) : rounds[view][kind];
      const top = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      const rows = kind === "self" ? passage.length : question.length;
      const power = kind === "self" ? 0.5 : 1; // a passage has many more words to share among than a question
      matrices.set(key, { values, rows, cols: passage.length, signed, top, power });
    }
    return matrices.get(key);
  }

  #title(view) {
    const count = this.#data.rounds.length;
    return view < count ? `Round ${view + 1}` : `${view - count + 1} → ${view - count + 2}`;
  }

  #words(side) {
    return $(`${side}-words`).querySelectorAll("b");
  }

  #buildRounds() {
    const views = Array.from({ length: this.#data.rounds.length * 2 - 1 }, (_, view) => view);
    $("round-list").replaceChildren(...views.map((view) => {
      const label = document.createElement("label"), input = document.createElement("input");
      const box = document.createElement("span"), canvas = document.createElement("canvas");
      Object.assign(input, { type: "radio", name: "round", value: view, checked: view === this.#view });
      canvas.setAttribute("aria-hidden", "true");
      box.append(canvas, this.#title(view));
      label.append(input, box);
      return label;
    }));
  }

  #listen(side) {
    const box = $(`${side}-words`);
    const index = (event) => event.target.dataset?.index;
    box.addEventListener("pointerover", (event) => {
      if (index(event) !== undefined && event.pointerType === "mouse") this.#light({ side, index: Number(index(event)) });
    });
    box.addEventListener("pointerleave", () => this.#data && this.#light(this.#active));
    box.addEventListener("focusin", (event) => index(event) !== undefined && this.#settle({ side, index: Number(index(event)) }));
    box.addEventListener("click", (event) => index(event) !== undefined && event.target.focus());
    box.addEventListener("keydown", (event) => this.#key(event, side));
  }

  #key(event, side) {
    const words = [...this.#words(side)], at = Number(event.target.dataset?.index);
    if (Number.isNaN(at) || event.ctrlKey || event.metaKey || event.altKey) return;
    const jump = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: words.length - 1, ArrowUp: line(words, at, -1), ArrowDown: line(words, at, 1) }[event.key];
    if (jump === undefined) return;
    event.preventDefault();
    words[Math.max(0, Math.min(words.length - 1, jump))].focus();
  }

  #settle(active) {
    this.#active = active;
    this.#light(active);
  }

  #render() {
    if (this.#kind === "self" && this.#active.side === "question") this.#active = { side: "passage", index: this.#data.span[0] };
    $("why-lead").textContent = LEADS[this.#kind];
    $("question-words").classList.toggle("dim", this.#kind === "self");
    $("rounds").classList.toggle("square", this.#kind === "self");
    $("round-list").querySelectorAll("canvas").forEach((canvas, view) => thumbnail(canvas, this.#matrix(this.#kind, view)));
    this.#drawMap();
    this.#light(this.#active);
  }

  #drawMap() {
    const { question, passage, span, rounds } = this.#data, kind = this.#kind;
    const matrix = this.#matrix(kind, this.#view);
    const columns = passage.map((word) => word.text), rows = kind === "self" ? columns : question.map((word) => word.text);
    this.#map.show(matrix, { rows, columns }, { columns: span, rows: kind === "self" ? span : [0, 0] });
    const change = this.#view >= rounds.length;
    const target = kind === "self" ? "the text itself" : "your question";
    const between = this.#title(this.#view).replace("→", "to");
    $("map-title").textContent = change
      ? `What a look back changed from round ${between}: where the text looks at ${target} more or less`
      : `Round ${this.#view + 1} of ${rounds.length}: how much each word of the text looks at ${target}`;
    $("axis-down").textContent = DOWN[kind];
    $("map").setAttribute("aria-label", `${$("map-title").textContent}. Arrow keys move the cross, with Shift by ten.`);
    legend($("legend"), matrix);
    $("legend-low").textContent = change ? `less ${signedPoints(-matrix.top)}` : "0 %";
    $("legend-high").textContent = change ? `${signedPoints(matrix.top)} more` : `${Math.round(matrix.top * 100)} %`;
  }

  // Tint the words that the active one attends to (or that attend to it), and say it in words.
  #light(active) {
    const kind = this.#kind, matrix = this.#matrix(kind, this.#view), { cols, values, rows, signed } = matrix;
    if (kind === "self" && active.side === "question") return;
    const fromQuestion = active.side === "question";
    const column = () => Array.from({ length: rows }, (_, i) => values[i * cols + active.index]);
    const shares = fromQuestion ? Array.from(values.subarray(active.index * cols, (active.index + 1) * cols)) : column();
    const lit = fromQuestion || kind === "self" ? "passage" : "question";
    const even = signed ? 0 : 1 / rows; // what a word would get if attention went to all alike; below that no tint
    const top = Math.max(0.01, 2 * even, ...shares.map(Math.abs));
    for (const word of document.querySelectorAll(".words .active, .words .linked")) word.classList.remove("active", "linked");
    for (const side of ["question", "passage"]) {
      this.#words(side).forEach((word, i) => {
        const share = side === lit ? (0.65 * Math.max(0, (Math.abs(shares[i]) - even) / (top - even)) ** 0.8).toFixed(2) : "0";
        const tone = signed ? `var(--${shares[i] > 0 ? "gain" : "loss"})` : "var(--tint)";
        if (word.share !== share) word.style.setProperty("--a", (word.share = share));
        if (word.tone !== tone && share > 0) word.style.setProperty("--tone", (word.tone = tone));
      });
    }
    this.#reach(active);
    this.#describe(active, lit, shares, signed, fromQuestion);
    this.#map.cross(fromQuestion ? active.index : null, fromQuestion ? null : active.index);
  }

  // Of each strip one word takes part in the Tab order: the one looked at, or else the first.
  #reach(active) {
    this.#words(active.side)[active.index]?.classList.add("active");
    for (const word of document.querySelectorAll('.words [tabindex="0"]')) word.tabIndex = -1;
    for (const side of ["question", "passage"]) {
      const word = this.#words(side)[side === active.side ? active.index : 0];
      if (word) word.tabIndex = 0;
    }
  }

  #describe(active, lit, shares, signed, fromQuestion) {
    const words = this.#data[lit], name = strong(`“${this.#data[active.side][active.index]?.text ?? ""}”`);
    const ranked = shares.map((share, i) => [share, i]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 5);
    const list = ranked.flatMap(([share, i], place) => [place ? ", " : " ", strong(words[i].text),
      signed ? ` ${signedPoints(share)}` : ` ${Math.round(share * 100)} %`]);
    const verb = signed ? (fromQuestion ? " is now looked at more (+) or less (−) by" : " now looks more (+) or less (−) at")
      : fromQuestion ? " is looked at most by" : " looks most at";
    $("readout").replaceChildren(name, verb, ...list, signed ? " points" : "");
    for (const word of document.querySelectorAll(".words [aria-describedby]")) word.removeAttribute("aria-describedby");
    this.#words(active.side)[active.index]?.setAttribute("aria-describedby", "readout");
  }

  #onCell(row, column) {
    const kind = this.#kind, matrix = this.#matrix(kind, this.#view), rowSide = kind === "self" ? "passage" : "question";
    const share = matrix.values[row * matrix.cols + column];
    for (const word of document.querySelectorAll(".words .linked")) word.classList.remove("linked");
    this.#words(rowSide)[row].classList.add("linked");
    this.#words("passage")[column].classList.add("linked");
    const amount = matrix.signed ? `${signedPoints(share)} points` : `${(share * 100).toFixed(1)} %`;
    $("cell").replaceChildren(strong(`“${this.#data.passage[column].text}”`), " at ", strong(`“${this.#data[rowSide][row].text}”`), `: ${amount}`);
  }
}

const outside = (text) => Object.assign(document.createElement("span"), { className: "outside", textContent: text });
const strong = (text) => Object.assign(document.createElement("strong"), { textContent: text });
const signedPoints = (share) => `${share > 0 ? "+" : "−"}${(Math.abs(share) * 100).toFixed(1)}`;

// The words of a text with what is between them, as nodes; points: the text as an array of code points.
export function wordsOf(words, points) {
  const cut = (from, to) => points.slice(from, to).join("");
  const parts = [];
  let at = 0;
  words.forEach(({ start, end }, index) => {
    if (start > at) parts.push(index ? cut(at, start) : outside(cut(0, start)));
    parts.push(Object.assign(document.createElement("b"), { textContent: cut(start, end) }));
    at = end;
  });
  return [...parts, outside(cut(at))];
}

// First word of an answer, and the one after its last, in a part of the passage that begins there; [0, 0]: none.
export function spanOf(words, from, { start, end }) {
  const inside = (word) => word.start + from < end && word.end + from > start;
  const first = words.findIndex(inside);
  return first < 0 ? [0, 0] : [first, words.findLastIndex(inside) + 1];
}

// An explanation with its matrices as arrays of numbers.
export function unpacked(explained) {
  const rounds = explained.rounds.map((round) => Object.fromEntries(Object.entries(round).map(([name, matrix]) => [name, unpack(matrix)])));
  return { ...explained, rounds };
}

function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 2 }, (_, at) => view.getUint16(at * 2, true) / 65535);
}

// The word above or below: the nearest one on the next line of text in that direction.
function line(words, at, direction) {
  const here = words[at].getBoundingClientRect(), middle = here.left + here.width / 2;
  let best, top = null;
  for (let i = at + direction; i >= 0 && i < words.length; i += direction) {
    const box = words[i].getBoundingClientRect();
    if ((box.top - here.top) * direction < 4) continue;
    if (top === null) top = box.top;
    if (Math.abs(box.top - top) > 4) break;
    const distance = Math.abs(box.left + box.width / 2 - middle);
    if (!best || distance < best[0]) best = [distance, i];
  }
  return best?.[1];
}
