// The description of the REST APIs, from their OpenAPI document.

import { badge, empty, h, pageHead, plainTable, replace, setTitle } from "../core/page.js";
import { searchField } from "../core/search.js";

export async function show(root, view) {
  setTitle("API");
  const found = await view.get("/api/openapi.json");
  const operations = Object.entries(found.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation })));
  const list = h("div.stack");
  const filter = searchField(view, "Filter operations", { placeholder: "Filter by path or words" });
  const draw = () => replace(list, shown(operations, filter.matcher(), found.components.schemas));
  view.onquery = draw;
  draw();
  root.append(
    pageHead("REST API", { actions: [h("a.button", { href: "/api/openapi.json", target: "_blank" }, "OpenAPI document")] }),
    h("div.stack",
      h("p.muted", "/v3 is Confluent's REST Proxy API. /api/v1 is what these pages use beyond it."), filter.node, list),
  );
}

function shown(operations, has, schemas) {
  const found = operations.filter((one) => has(`${one.method} ${one.path} ${one.description}`));
  return found.length ? found.map((one) => operation(one, schemas)) : empty("No operation has these words");
}

function operation(one, schemas) {
  const parameters = one.parameters.map((each) =>
    h("tr", h("th", { scope: "row" }, h("code", each.name)), h("td", `${each.in}${each.required ? ", required" : ""}`), h("td", each.schema.enum?.join(", ") ?? each.schema.type)));
  const body = one.requestBody && schemaOf(one.requestBody.content);
  const answers = Object.entries(one.responses).map(([status, answer]) =>
    h("li", h("code", status), ` ${answer.description} `, answer.content && h("span.muted", schemaOf(answer.content))));
  return h("details.card",
    h("summary", badge(one.method, one.method === "GET" ? "accent" : "warn"), " ", h("code", one.path), " ", h("span.muted", one.summary)),
    h("div.stack",
      h("p", one.description),
      parameters.length > 0 && plainTable("Parameters", ["Parameter", "In", "Type"], h("tbody", parameters)),
      body && [h("h3", `Body: ${body}`), h("pre", JSON.stringify(schemas[body], null, 2))],
      h("h3", "Answers"), h("ul", answers)));
}

const schemaOf = (content) => Object.values(content)[0].schema.$ref.split("/").at(-1);
