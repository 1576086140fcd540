// The description of the API for people, made from openapi.json, with a way to try every call.
import { $, element } from "./common.js";

const api = await fetch("openapi.json").then((response) => response.json());
const resolve = (schema) => (schema.$ref ? schema.$ref.split("/").slice(1).reduce((tree, name) => tree[name], api) : schema);

function typeOf(schema) {
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.type === "array") return `list of ${typeOf(schema.items)}`;
  return schema.type ?? "anything";
}

function row(...cells) {
  return element("tr", {}, ...cells.map((cell) => element("td", {}, cell)));
}

// One line per field: name, type, and what it means.
function fieldTable(schema) {
  const body = element("tbody");
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const needed = schema.required?.includes(name);
    const note = needed ? "required" : "default" in field ? `default ${JSON.stringify(field.default)}` : "";
    body.append(row(element("code", { textContent: name }), typeOf(field), [field.description, note].filter(Boolean).join(" ")));
  }
  return element("table", {}, body);
}

const mediaOf = (body) => (body ? Object.keys(body.content)[0] : undefined);

async function send(path, method, media, text) {
  const headers = {};
  const key = $("key").value.trim();
  if (key) headers.authorization = `Bearer ${key}`;
  if (media) headers["content-type"] = media;
  const response = await fetch(path.slice(1), { method, headers, body: method === "POST" ? text : undefined });
  const body = await response.text();
  const isJson = response.headers.get("content-type") === "application/json";
  return `${response.status}\n${isJson ? JSON.stringify(JSON.parse(body), null, 2) : body}`;
}

function card(path, method, operation) {
  const media = mediaOf(operation.requestBody), isUpload = media && media !== "application/json";
  const request = isUpload ? null : operation.requestBody?.content[media].schema;
  const given = mediaOf(operation.responses["200"]);
  const answer = given === "text/plain" ? null : operation.responses["200"].content[given].schema;
  const box = element("section", { className: "card operation" });
  box.append(element("h2", { textContent: `${method} ${path}` }), element("p", { textContent: operation.summary }));
  const text = element("textarea", { spellcheck: false, ariaLabel: `Body for ${path}` });
  if (request) {
    const schema = resolve(request);
    text.value = JSON.stringify(schema.examples?.[0] ?? {}, null, 2);
    box.append(element("p", { textContent: schema.description }), fieldTable(schema), text);
  }
  if (isUpload) {
    text.value = "The canal was dug by three thousand men.";
    box.append(element("p", { textContent: `Takes a file as it is (${media}); here, this text as a file:` }), text);
  }
  if (answer) box.append(element("p", { textContent: `Gives ${typeOf(answer)}: ${resolve(answer).description}` }), fieldTable(resolve(answer)));
  box.append(element("p", { textContent: `Errors: ${Object.keys(operation.responses).filter((status) => status !== "200").join(", ")}` }));
  const result = element("pre", { hidden: true, ariaLive: "polite" });
  const button = element("button", { className: "primary", textContent: "Try it" });
  button.addEventListener("click", async () => {
    result.textContent = await send(isUpload ? `${path}?name=canal.txt` : path, method, media, text.value).catch(() => "The server does not answer.");
    result.hidden = false;
  });
  box.append(button, result);
  return box;
}

$("about").textContent = api.info.description;
for (const [path, methods] of Object.entries(api.paths)) {
  for (const [method, operation] of Object.entries(methods)) $("operations").append(card(path, method.toUpperCase(), operation));
}
const statuses = new Map();
for (const methods of Object.values(api.paths)) {
  for (const operation of Object.values(methods)) {
    for (const [status, response] of Object.entries(operation.responses)) if (status !== "200") statuses.set(status, resolve(response).description);
  }
}
$("errors").tBodies[0].append(...[...statuses].sort().map(([status, description]) => row(status, description)));
