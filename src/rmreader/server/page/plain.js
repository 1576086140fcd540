// What the reader looked at, in plain words: which words of the question led to the answer's
// sentence. The matrices behind it are shown by attention.js.
import { element, percent } from "./common.js";

const TOLD = 3; // words of the question
const LEAST = 0.3; // of its attention that a word must give to be told of
const TIMES = 2; // as much as by chance, at least

const isWord = ({ text }) => /[\p{L}\p{N}]/u.test(text);
const strong = (text) => element("strong", {}, `“${text}”`);

// The words [first, end) that lie between two characters, in a part that begins at `from`.
function wordsBetween(words, from, low, high) {
  const isInside = (word) => word.start + from < high && word.end + from > low;
  const first = words.findIndex(isInside);
  return first < 0 ? null : [first, words.findLastIndex(isInside) + 1];
}

// What of a word of the question goes to some words of the text, in the round in which most does.
function shareOf(row, [first, end], { passage, rounds }) {
  const found = rounds.map(({ context }, round) => {
    const values = context.subarray(row * passage.length + first, row * passage.length + end);
    const share = values.reduce((sum, value) => sum + value, 0);
    let most = first;
    values.forEach((value, at) => {
      const isMore = value > values[most - first] || !isWord(passage[most]);
      if (isWord(passage[first + at]) && isMore) most = first + at;
    });
    return { share, round: round + 1, most: passage[most].text };
  });
  return found.reduce((best, one) => (one.share > best.share ? one : best));
}

// The words of the question that looked at the answer's sentence far more than by chance, those
// that did most first; and how much would be chance.
export function leads(explained, answer, from) {
  const { question, passage } = explained;
  const finish = answer.sentence_start + [...answer.sentence].length;
  const span =
    wordsBetween(passage, from, answer.sentence_start, finish) ??
    wordsBetween(passage, from, answer.start, answer.end);
  const chance = (span[1] - span[0]) / passage.length;
  const least = Math.max(LEAST, TIMES * chance);
  const leading = question
    .map((word, row) => ({ word: word.text, isWord: isWord(word), ...shareOf(row, span, explained) }))
    .filter((one) => one.isWord && one.share >= Math.min(least, 0.9))
    .sort((one, other) => other.share - one.share)
    .slice(0, TOLD);
  return { leading, chance };
}

// Which word of the question the answer's own words looked at most, in any round.
export function lookedAt({ question, passage, rounds }, answer, from) {
  const [first, end] = wordsBetween(passage, from, answer.start, answer.end);
  let best = { share: 0 };
  rounds.forEach(({ interactive }, round) => {
    question.forEach((word, row) => {
      if (!isWord(word)) return;
      const begin = row * passage.length;
      const values = interactive.subarray(begin + first, begin + end);
      const share = values.reduce((sum, value) => sum + value, 0) / values.length;
      if (share > best.share) best = { word: word.text, share, round: round + 1 };
    });
  });
  return best;
}

// The explanation as nodes.
export function tell(explained, answer, from) {
  const { leading, chance } = leads(explained, answer, from);
  const own = lookedAt(explained, answer, from);
  const names = leading.flatMap(({ word }, place) => [between(place, leading.length), strong(word)]);
  const lead = leading.length
    ? [`${leading.length > 1 ? "These words" : "This word"} of your question led to this sentence: `,
      ...names, "."]
    : ["No single word of your question stands out; together they led to this sentence."];
  const ties = leading.map(({ word, share, most, round }) =>
    element(
      "li", {}, strong(word), ` gave the sentence ${percent(share)} of its attention, most of it to `,
      strong(most), ` (round ${round}).`,
    ),
  );
  const answering = element(
    "li", {}, "The words of the answer, ", strong(answer.text), ", looked most at ", strong(own.word),
    ` (${percent(own.share)}, round ${own.round}).`,
  );
  const note =
    `The sentence is ${percent(chance)} of what was read, so that much would be chance. ` +
    "Attention shows what the reader tied together; it is no proof of why it answered so.";
  return [
    element("p", {}, ...lead),
    element("blockquote", {}, element("q", {}, answer.sentence)),
    element("ul", {}, ...ties, answering),
    element("p", { className: "quiet" }, note),
  ];
}

const between = (place, number) => (place ? (place === number - 1 ? " and " : ", ") : "");
