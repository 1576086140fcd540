// Answers as a person should see them, and questions that are worth asking.
import { count, element, percent } from "./common.js";

export const SHOWN = 6; // candidates
const AROUND = 160; // characters of a sentence on either side of an answer from the shelf

// Why something is not worth sending; passage is null where the shelf is asked.
export function complaintAbout(question, passage, limits) {
  const long = (text, limit, what) => {
    const length = [...text].length;
    return length > limit && `The ${what} has ${count(length, "character", "characters")}; the most is ${limit.toLocaleString("en")}.`;
  };
  if (passage !== null && !passage.trim()) return "There is no passage yet. Paste some text, or take a sample.";
  if (!question.trim()) return "There is no question yet. Type one and press Enter.";
  return (passage !== null && long(passage, limits.max_passage, "passage")) || long(question, limits.max_question, "question");
}

// The same words in another place are no other answer to a person, and a mark without a letter is none.
export function distinct(answers) {
  const texts = answers.map((answer) => answer.text.toLowerCase());
  return answers.filter((answer, place) => !place || (/[\p{L}\p{N}]/u.test(answer.text) && texts.indexOf(texts[place]) === place)).slice(0, SHOWN);
}

export const whereabouts = ({ document, page, heading }) => [document, page && `page ${page}`, heading].filter(Boolean).join(" · ");

// An answer from the shelf: itself, the sentence around it (of a long one a part), and where that is.
export function placed({ text, sentence, confidence, ...place }) {
  const at = sentence.indexOf(text), end = at + text.length;
  const before = at > AROUND ? `…${sentence.slice(at - AROUND, at)}` : sentence.slice(0, at);
  const after = sentence.length > end + AROUND ? `${sentence.slice(end, end + AROUND)}…` : sentence.slice(end);
  return [element("span", { className: "text" }, text, element("span", {}, `${percent(confidence)} sure`)),
    element("q", {}, ...(at < 0 ? [sentence] : [before, element("em", {}, text), after])), element("small", {}, whereabouts(place))];
}

// Attention grows with the square of the passage, so of a long one only the part round the answer is shown; of a
// document, the passage that was read.
export function partAround({ points, read }, { start, end }, most) {
  if (read && read.end - read.start <= most) return { from: read.start, part: points.slice(read.start, read.end) };
  if (points.length <= most) return { from: 0, part: points };
  let from = Math.max(0, Math.min(Math.floor((start + end - most) / 2), points.length - most));
  let to = from + most;
  const space = (at) => /\s/u.test(points[at] ?? " ");
  while (from > 0 && from < start && !space(from - 1)) from++;
  while (to < points.length && to > end && !space(to)) to--;
  return { from, part: points.slice(from, to) };
}
