// How far to believe an answer, in one of three words, and what a refusal would need.
import { percent } from "./common.js";

export const WORTH_SHOWING = 0.05; // confidence of another answer, at least
const FIRM = 0.5; // a refusal that is less sure than this is a "perhaps"

// An answer's word and figure, as it is seen and heard.
export const sureness = ({ doubt, confidence }) => `${doubt}, ${percent(confidence)}`;

// Whether nothing is given, but the guess is the better bet.
export const isHalfRefused = ({ answers, guess, no_answer: none }) =>
  !answers.length && guess !== undefined && none !== undefined && none < FIRM;

// What the first word of a question asks for.
const KINDS = [
  [/^(who|whom|whose)\b/i, "names a person"],
  [/^(when|what (year|date|day|time))\b/i, "says when"],
  [/^(where|which (country|city|town|place))\b/i, "says where"],
  [/^how (many|much)\b/i, "gives a number"],
  [/^how (long|far|old|tall|high|deep|often|large|big)\b/i, "gives a measure"],
  [/^why\b/i, "gives a reason"],
  [/^how\b/i, "says how"],
];
const COMMON = new Set(
  ("a about an and any are as at be been before by can could did do does for from had has have how " +
    "in into is it its many me much my not of on or our should tell than that the their them there " +
    "these they this those to under until was we were what when where which who whom whose why " +
    "will with would you your").split(" "),
);

const stem = (word) => word.toLowerCase().replace(/(’s|'s|ing|ed|es|s)$/u, "");
const words = (text) => text.match(/[\p{L}\p{N}]+(?:[’'.-][\p{L}\p{N}]+)*/gu) ?? [];

// Words of a question that the text never has; none where the text is not at hand.
export function missingWords(question, text) {
  if (!text) return [];
  const known = new Set(words(text).map(stem));
  const wanted = words(question).filter((word) => !COMMON.has(word.toLowerCase()));
  return [...new Set(wanted)].filter((word) => !known.has(stem(word))).slice(0, 3);
}

// What a text would have to say for an answer.
export function needs(question, text, where) {
  const kind = KINDS.find(([begin]) => begin.test(question.trim()))?.[1] ?? "says it";
  const missing = missingWords(question, text).map((word) => `“${word}”`);
  const need = `An answer would need a sentence that ${kind}`;
  if (!missing.length) return `${need}; nothing in ${where} does.`;
  return `${need}; ${where} never mentions ${listed(missing, "or")}.`;
}

const listed = (items, word) =>
  items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} ${word} ${items.at(-1)}`;
