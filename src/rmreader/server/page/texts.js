// Texts that come from elsewhere: a file that is opened or dropped, and a question in the address after the "#", which
// browsers keep to themselves.
import { Refusal, count } from "./common.js";

// How files begin that are not text, and what they are.
const KINDS = [[/^%PDF/, "a PDF"], [/^PK\x03\x04/, "a Word document or another packed file"], [/^\xd0\xcf\x11\xe0/, "an old Office document"],
  [/^\x1f\x8b/, "a packed file"], [/^(\x89PNG|\xff\xd8\xff|GIF8|RIFF)/, "a picture or a recording"]];

export async function textOf(file, most) {
  if (file.size > 4 * most) { // no character takes more than four bytes
    throw new Refusal(`“${file.name}” has ${count(file.size, "byte", "bytes")}, which is more than the ${most.toLocaleString("en")} characters read here; open a part of it.`);
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  const head = String.fromCharCode(...bytes.subarray(0, 8)), kind = KINDS.find(([begin]) => begin.test(head));
  if (kind) throw new Refusal(`“${file.name}” is ${kind[1]}, not text; copy its text here, or save it as plain text first.`);
  const wide = /^(\xff\xfe|\xfe\xff)/.exec(head);
  try {
    const text = new TextDecoder(!wide ? "utf-8" : wide[0] === "\xff\xfe" ? "utf-16le" : "utf-16be", { fatal: true }).decode(bytes);
    if (!text.includes("\0")) return text;
  } catch { /* said below */ }
  throw new Refusal(`“${file.name}” is not text in UTF-8; save it as UTF-8 first.`);
}

const through = (data, stream) => new Blob([data]).stream().pipeThrough(stream);

// What is asked as the part of an address after "#".
export async function packLink(asked) {
  const packed = new Uint8Array(await new Response(through(JSON.stringify(asked), new CompressionStream("deflate-raw"))).arrayBuffer());
  let text = "";
  for (const byte of packed) text += String.fromCharCode(byte);
  return `#q=${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

// And back; null where the address has no question. A few bytes can unfold to gigabytes: no more than so many are.
export async function unpackLink(hash, most) {
  if (!hash.startsWith("#q=")) return null;
  try {
    const packed = Uint8Array.from(atob(hash.slice(3).replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0));
    const reader = through(packed, new DecompressionStream("deflate-raw")).getReader(), parts = [];
    for (let size = 0, next; !(next = await reader.read()).done; parts.push(next.value)) {
      if ((size += next.value.length) > most) throw new Refusal();
    }
    const { question, passage } = JSON.parse(await new Blob(parts).text());
    if (typeof question === "string" && ["string", "undefined"].includes(typeof passage)) return { question, passage };
  } catch { /* said below */ }
  throw new Refusal("The link to a question is damaged or cut off; ask for it again.");
}
