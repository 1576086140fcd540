// Answers as a person should see them, and questions that are worth asking.
import { count, element } from "./common.js";
import { WORTH_SHOWING, sureness } from "./doubt.js";

export const SHOWN = 6; // candidates
const AROUND = 160; // characters of a sentence on either side of an answer from the documents

// Why something is not worth sending; passage is null where documents are asked.
export function complaintAbout(question, passage, limits) {
  if (passage !== null && !passage.trim()) {
    return "There is no passage yet. Paste some text, open a file, or take a sample.";
  }
  if (!question.trim()) return "There is no question yet. Type one and press Enter.";
  const length = [...question].length;
  if (length > limits.max_question) {
    const most = limits.max_question.toLocaleString("en");
    return `The question has ${count(length, "character", "characters")}; the most is ${most}.`;
  }
  return null;
}

// Different answers that are worth a look: the same words in another place are no other answer to
// a person, a mark without a letter is none, and what is hardly possible only distracts.
export function worthShowing(answers) {
  const texts = answers.map((answer) => answer.text.toLowerCase());
  const isWorth = (answer, place) =>
    !place ||
    (answer.confidence >= WORTH_SHOWING &&
      /[\p{L}\p{N}]/u.test(answer.text) &&
      texts.indexOf(texts[place]) === place);
  return answers.filter(isWorth).slice(0, SHOWN);
}

export const whereabouts = ({ document, page, lines, heading }) =>
  [document, page && `page ${page}`, lines && `line ${lines[0]}`, heading].filter(Boolean).join(" · ");

// An answer from the documents: itself, the sentence around it (of a long one a part), and where
// that is.
export function placed(answer) {
  const { text, sentence, ...place } = answer;
  const at = sentence.indexOf(text);
  const end = at + text.length;
  const before = at > AROUND ? `…${sentence.slice(at - AROUND, at)}` : sentence.slice(0, at);
  const isLong = sentence.length > end + AROUND;
  const after = isLong ? `${sentence.slice(end, end + AROUND)}…` : sentence.slice(end);
  const quote = at < 0 ? [sentence] : [before, element("em", {}, text), after];
  return [
    element("span", { className: "text" }, text, " ", element("span", {}, sureness(answer))),
    element("q", {}, ...quote),
    element("small", {}, whereabouts(place)),
  ];
}

// Attention grows with the square of the passage, so of a long one only the part round the answer
// is shown; of a document, the passage that was read. `text` is cut by code points.
export function partAround({ text, read }, { start, end }, most) {
  if (read && read.end - read.start <= most) {
    return { from: read.start, part: text.slice(read.start, read.end) };
  }
  if (text.length <= most) return { from: 0, part: text.slice(0) };
  const middle = Math.floor((start + end - most) / 2);
  let from = Math.max(0, Math.min(middle, text.length - most));
  let to = from + most;
  const isSpace = (at) => /\s/u.test(text.slice(at, at + 1) || " ");
  while (from > 0 && from < start && !isSpace(from - 1)) from++;
  while (to < text.length && to > end && !isSpace(to)) to--;
  return { from, part: text.slice(from, to) };
}
