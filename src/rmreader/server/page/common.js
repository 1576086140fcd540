// What every part of the page needs: elements, figures in plain words, calls to the server, complaints.
export const $ = (id) => document.getElementById(id);

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export const percent = (share) => (share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(share * 100)} %`);
export const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export function reveal(place, block = "nearest") {
  place.scrollIntoView({ block, behavior: still() ? "auto" : "smooth" });
}

// Scroll inside a box alone, and only where the place is not in sight.
export function bring(place, box) {
  const offset = place.getBoundingClientRect().top - box.getBoundingClientRect().top;
  if (offset < 0 || offset > box.clientHeight - 40) box.scrollTop += offset - box.clientHeight / 3;
}

export class Refusal extends Error {}

export async function post(path, body) {
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

export function complain(error) {
  if (!(error instanceof Refusal)) console.error(error);
  $("error").textContent = error instanceof Refusal ? error.message : "Something went wrong on this page; reload it and try again.";
  $("error").hidden = false;
}
