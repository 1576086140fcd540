// How far to believe an answer, in one of three words.
import { percent } from "./common.js";

export const WORTH_SHOWING = 0.05; // confidence of another answer, at least
const FIRM = 0.5; // a refusal that is less sure than this is a "perhaps"

// An answer's word and figure, as it is seen and heard.
export const sureness = ({ doubt, confidence }) => `${doubt}, ${percent(confidence)}`;

// Whether nothing is given, but the guess is the better bet.
export const isHalfRefused = ({ answers, guess, no_answer: none }) =>
  !answers.length && guess !== undefined && none !== undefined && none < FIRM;
