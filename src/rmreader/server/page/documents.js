// The documents that a server has: a list of them, and the page of a PDF with an answer marked.
import { $, count, element, get, post } from "./common.js";

// List the documents with how many passages each has; the list is as new as the last question.
export async function showDocuments() {
  const { count: number, documents } = await get("v1/documents");
  $("document-count").textContent = count(number, "document", "documents");
  const rows = documents.map(({ document, passages, note }) => {
    const counted = count(passages, "passage", "passages");
    const told = [counted, note].filter(Boolean).join(" · ");
    return element("li", {}, element("span", {}, document), " ", element("small", {}, told));
  });
  if (number > documents.length) {
    rows.push(element("li", {}, `and ${(number - documents.length).toLocaleString("en")} more`));
  }
  $("document-list").replaceChildren(...rows);
}

// Whether an answer is on a page that can be drawn.
export const hasPage = ({ document, page }) => page !== null && /\.pdf$/i.test(document);

// Draw the page that an answer is on, with the answer marked.
export async function drawPage(answer) {
  const { id, start, end } = answer.passage;
  const drawn = await post("v1/page", { passage: id, start, end });
  const bytes = Uint8Array.from(atob(drawn.image), (character) => character.charCodeAt(0));
  const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const sheet = $("sheet-picture");
  Object.assign(sheet, { width: drawn.width, height: drawn.height });
  sheet.getContext("2d").drawImage(picture, 0, 0);
  picture.close();
  const marked = drawn.areas.length ? `, with “${answer.text}” marked` : "";
  sheet.setAttribute("aria-label", `Page ${drawn.page} of ${drawn.document}${marked}`);
  $("sheet-areas").replaceChildren(...drawn.areas.map((area) => areaOf(area, answer.doubt)));
  const all = `Page ${drawn.page} of ${drawn.document}`;
  $("sheet-caption").textContent = marked ? `${all}; the answer is marked.` : all;
}

function areaOf({ left, top, right, bottom }, doubt) {
  const area = element("span", { className: `area ${doubt}` });
  area.style.left = `${left * 100}%`;
  area.style.top = `${top * 100}%`;
  area.style.width = `${(right - left) * 100}%`;
  area.style.height = `${(bottom - top) * 100}%`;
  return area;
}
