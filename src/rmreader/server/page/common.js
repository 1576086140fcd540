// What every part of the page needs: elements, figures in plain words, calls to the server,
// complaints.
export const $ = (id) => document.getElementById(id);

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export const percent = (share) =>
  share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(share * 100)} %`;

export const count = (number, one, many) =>
  `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export function reveal(place, block = "nearest") {
  place.scrollIntoView({ block, behavior: still() ? "auto" : "smooth" });
}

// Scroll inside a box alone, and only where the place is not in sight.
export function bring(place, box) {
  const offset = place.getBoundingClientRect().top - box.getBoundingClientRect().top;
  if (offset < 0 || offset > box.clientHeight - 40) {
    box.scrollTop += offset - box.clientHeight / 3;
  }
}

// A sentence for a person: something was refused, and this is why.
export class Refusal extends Error {}

const GONE = "The server does not answer. Is it still running?";

// Send something to the server; what comes back is a response that is not an error.
async function send(path, options) {
  const headers = { ...options.headers };
  const key = $("key").value.trim();
  if (/[^!-~]/u.test(key)) {
    throw new Refusal(
      "An API key holds only unaccented letters, digits and ASCII signs, without spaces; " +
        "check what was typed.",
    );
  }
  if (key) headers.authorization = `Bearer ${key}`;
  const response = await fetch(path, { ...options, headers }).catch(gone);
  if (response.status === 401) $("key-row").hidden = false;
  if (!response.ok) {
    const data = await response.json().catch(() => ({}));
    throw new Refusal(
      data.error?.message ?? `The server refused with status ${response.status}.`,
    );
  }
  return response;
}

function gone(error) {
  if (error.name === "AbortError") throw error;
  throw new Refusal(GONE);
}

function asJson(body, signal) {
  const headers = { "content-type": "application/json" };
  return { method: "POST", headers, body: JSON.stringify(body), signal };
}

export async function get(path) {
  const response = await send(path, {});
  return response.json().catch(gone);
}

export async function post(path, body, signal) {
  const response = await send(path, asJson(body, signal));
  return response.json().catch(gone);
}

// Have a file of any format read; what comes back is its text.
export async function readFile(file, signal) {
  const headers = { "content-type": "application/octet-stream" };
  const path = `v1/read?name=${encodeURIComponent(file.name)}`;
  const response = await send(path, { method: "POST", headers, body: file, signal });
  return response.json().catch(gone);
}

// Ask about a text of any length; `tell` is told the share that was read, again and again.
export async function postLong(path, body, signal, tell) {
  const response = await send(path, asJson(body, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let last = null;
  for (;;) {
    const { value, done } = await reader.read().catch(gone);
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      last = JSON.parse(line);
      if (last.read !== undefined) tell(last.read);
    }
  }
  if (last?.error) throw new Refusal(last.error.message);
  if (!last?.answers) throw new Refusal(GONE);
  return last;
}

export function complain(error) {
  if (!(error instanceof Refusal)) console.error(error);
  $("error").textContent =
    error instanceof Refusal
      ? error.message
      : "Something went wrong on this page; reload it and try again.";
  $("error").hidden = false;
}
