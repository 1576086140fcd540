// What this browser keeps of the page over a reload: the text, the question and earlier questions
// with their texts. It stays on this machine, and goes when the person says so.

const KEY = "rmreader";
const MOST = 2_000_000; // characters; browsers keep about five million

// Storage may be switched off, full, or hold something else: then nothing is kept.
export function recall() {
  try {
    const { passage, question, earlier } = JSON.parse(localStorage.getItem(KEY)) ?? {};
    const texts = [passage, question].every((text) => typeof text === "string");
    if (!texts || !Array.isArray(earlier)) return null;
    return { passage, question, earlier: earlier.filter(isQuestion) };
  } catch {
    return null;
  }
}

function isQuestion(one) {
  const texts = [one?.question, one?.passage, one?.said];
  return texts.every((text) => typeof text === "string") && typeof one.shelf === "boolean";
}

// Keep as much as there is room for, the latest questions first. Says whether the text is kept.
export function keep({ passage, question, earlier }) {
  const fits = passage.length + question.length <= MOST;
  let left = MOST - (fits ? passage.length : 0) - question.length;
  const kept = [];
  for (const one of earlier) {
    left -= one.question.length + one.passage.length + one.said.length;
    if (left < 0) break;
    kept.push(one);
  }
  try {
    const tree = { passage: fits ? passage : "", question, earlier: kept };
    localStorage.setItem(KEY, JSON.stringify(tree));
    return fits;
  } catch {
    return false;
  }
}

export function forget() {
  try {
    localStorage.removeItem(KEY);
  } catch {
    // There is nothing, then.
  }
}
