// A guided tour of reattention in three steps, with the attention that the running reader paid to the question at hand:
// the two halves of an aligning block (the paper's Figure 4), and what two words' attentions have in common (Figure 2).
import { $, bring, element, percent, still } from "./common.js";

const STEPS = [
  ["It holds the passage against the question", ({ word, inQuestion }) => [
    "Attention is how strongly one word is tied to another while the reader reads: each word has 100 % to hand out. First every word of the passage looks over the words of the question. Here is ",
    strong(word), ", a word of the answer, in round 1. It looked most at ", ...listed(inQuestion), "."]],
  ["It holds the passage against itself", ({ word, inPassage }) => [
    "Then every word of the passage looks over the rest of the passage, so that what is said in one place helps to understand another. ",
    strong(word), " looked most at ", ...listed(inPassage), "."]],
  ["It remembers, and looks again", ({ word, asking, shared, overlap, rival, before, after, rounds }) => [
    "Now it compares what two words looked at. Shaded is what ", strong(asking), " of the question looked at in the passage, underlined what ", strong(word), " did. ",
    ...(shared.length ? ["Both looked at ", ...listed(shared, false), ": "] : []), `their overlap is ${figure(overlap)}`,
    ...(rival ? [`, that of `, strong(asking), " and ", strong(rival.word), `, another candidate, ${figure(rival.overlap)}`] : []),
    ". Reattention adds this overlap, times a weight the reader has learned, when round 2 ties words together: two that looked at the same places are drawn closer. ",
    strong(word), " gave ", strong(asking), ` ${percent(before)} of its attention in round 1 and ${percent(after)} in round 2, where what it has understood meanwhile counts as well. `,
    rounds > 2 ? `The same happens before ${rounds === 3 ? "round 3" : "every later round"}; then the reader points at its answer.` : "Then the reader points at its answer."]],
];

const strong = (text) => element("strong", {}, `“${text}”`);
const figure = (share) => (share < 0.1 ? `${(share * 100).toFixed(1)} %` : percent(share));
const listed = (shares, figures = true) => shares.flatMap(([text, share], place) => [place ? (place === shares.length - 1 ? " and " : ", ") : "", strong(text), figures ? ` (${figure(share)})` : ""]);
const word = ({ text }) => /[\p{L}\p{N}]/u.test(text);

// The words with the largest shares, those that are there more than once with all of theirs.
function most(words, shares, number) {
  const sums = new Map();
  words.forEach((one, at) => word(one) && sums.set(one.text, (sums.get(one.text) ?? 0) + shares[at]));
  return [...sums].filter(([, share]) => share > 0.01).sort((a, b) => b[1] - a[1]).slice(0, number);
}

const column = ({ values, cols }, at) => Array.from({ length: values.length / cols }, (_, i) => values[i * cols + at]);
const row = ({ values, cols }, at) => Array.from(values.subarray(at * cols, (at + 1) * cols));

// All that the steps tell, out of the first two rounds: spans are [from, to) in words, that of the answer first.
function story({ question, passage, rounds }, [answer, ...rivals]) {
  const cols = passage.length, matrix = (round, kind) => ({ values: rounds[round][kind], cols });
  const places = (words, from, to) => words.map((one, at) => at).slice(from, to).filter((at) => word(words[at]));
  const telling = (words, at) => words[at].text.length > 3 || /[\p{Lu}\p{N}]/u.test(words[at].text);
  const asked = places(question, 0);
  const inside = ([from, to]) => {
    const all = places(passage, from, to), most = all.filter((at) => telling(passage, at));
    return most.length ? most : all;
  };
  const together = (i, j) => row(matrix(0, "context"), i).map((share, k) => share * rounds[0].self[k * cols + j]); // Eq. 4, by word
  const overlap = (i, j) => together(i, j).reduce((sum, share) => sum + share, 0);
  const best = (is, js) => is.flatMap((i) => js.map((j) => [overlap(i, j), i, j])).sort((a, b) => b[0] - a[0])[0];
  const [value, i, j] = best(asked.length ? asked : [0], inside(answer).length ? inside(answer) : [answer[0]]);
  const other = rivals.map((span) => inside(span).filter((at) => telling(passage, at) && ![passage[j].text, question[i].text].includes(passage[at].text))).find((words) => words.length);
  const rival = other && best([i], other);
  return {
    i, j, word: passage[j].text, asking: question[i].text, overlap: value, rounds: rounds.length,
    inQuestion: most(question, column(matrix(0, "interactive"), j), 3), inPassage: most(passage, column(matrix(0, "self"), j), 4),
    shared: most(passage, together(i, j).map((share) => share / (value || 1)), 2),
    rival: rival && { word: passage[rival[2]].text, overlap: rival[0] },
    looks: { question: column(matrix(0, "interactive"), j), passage: column(matrix(0, "self"), j), asking: row(matrix(0, "context"), i) },
    before: rounds[0].interactive[i * cols + j], after: rounds[1].interactive[i * cols + j],
  };
}

export class Tour {
  #story = null;
  #step = 0;

  constructor() {
    $("tour-back").addEventListener("click", () => this.#show(this.#step - 1));
    $("tour-next").addEventListener("click", () => (this.#step < STEPS.length - 1 ? this.#show(this.#step + 1) : this.close(true)));
    $("tour-close").addEventListener("click", () => this.close(true));
    $("tour").addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      this.close(true);
    });
  }

  // strips: the words of the question and of the passage as nodes; spans as in story.
  open(explained, strips, spans) {
    this.#story = story(explained, spans);
    $("tour-question").replaceChildren(...strips.question);
    $("tour-passage").replaceChildren(...strips.passage);
    $("tour").hidden = false;
    this.#show(0);
    $("tour").scrollIntoView({ block: "start", behavior: still() ? "auto" : "smooth" });
    $("tour-title").focus({ preventScroll: true });
  }

  close(back = false) {
    if ($("tour").hidden) return;
    $("tour").hidden = true;
    if (back) $("tour-button").focus();
  }

  #show(step) {
    const [title, tell] = STEPS[step], { looks, i, j } = this.#story;
    this.#step = step;
    $("tour-title").textContent = `Step ${step + 1} of ${STEPS.length}: ${title}`;
    $("tour-text").replaceChildren(...tell(this.#story));
    $("tour-back").disabled = !step;
    $("tour-next").textContent = step < STEPS.length - 1 ? "Next" : "Done";
    this.#tint("question", step ? [] : looks.question, [], step === 2 ? i : -1);
    this.#tint("passage", [[], looks.passage, looks.asking][step], step === 2 ? looks.passage : [], j);
    const lit = $("tour-passage").querySelector(".active");
    if (lit) bring(lit, $("tour-passage"));
  }

  // Shade by the first shares, underline by the second; where all were alike nothing is.
  #tint(side, shares, lines, active) {
    const words = $(`tour-${side}`).querySelectorAll("b");
    const deep = (values, at) => {
      const even = 1 / words.length, top = Math.max(2 * even, ...values);
      return values.length ? Math.max(0, (values[at] - even) / (top - even)) ** 0.7 : 0;
    };
    words.forEach((one, at) => {
      one.style.setProperty("--a", (0.65 * deep(shares, at)).toFixed(2));
      one.style.setProperty("--line", deep(lines, at).toFixed(2));
      one.classList.toggle("active", at === active);
    });
  }
}
