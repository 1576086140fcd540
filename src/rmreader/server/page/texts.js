// Questions that come in an address: after the "#", which browsers keep to themselves.
import { Refusal } from "./common.js";

const through = (data, stream) => new Blob([data]).stream().pipeThrough(stream);

// What is asked as the part of an address after "#".
export async function packLink(asked) {
  const stream = through(JSON.stringify(asked), new CompressionStream("deflate-raw"));
  const packed = new Uint8Array(await new Response(stream).arrayBuffer());
  let text = "";
  for (const byte of packed) text += String.fromCharCode(byte);
  return `#q=${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

// And back; null where the address has no question. A few bytes can unfold to gigabytes: no more
// than so many are.
export async function unpackLink(hash, most) {
  if (!hash.startsWith("#q=")) return null;
  try {
    const tree = JSON.parse(await unfold(hash.slice(3), most));
    const { question, passage, document, start } = tree;
    const isPassage = ["string", "undefined"].includes(typeof passage);
    if (typeof question === "string" && isPassage) return { question, passage, document, start };
  } catch {
    // It is said below.
  }
  throw new Refusal("The link to a question is damaged or cut off; ask for it again.");
}

async function unfold(written, most) {
  const text = atob(written.replaceAll("-", "+").replaceAll("_", "/"));
  const packed = Uint8Array.from(text, (character) => character.charCodeAt(0));
  const reader = through(packed, new DecompressionStream("deflate-raw")).getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return new Blob(parts).text();
    size += value.length;
    if (size > most) throw new Refusal();
    parts.push(value);
  }
}
