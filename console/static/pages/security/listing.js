// What the tabs have in common: a table with a search, asked again and again, and why there is none.

import { empty, failed, h, options, poll, replace, setQuery } from "../../core/page.js";
import { searchField } from "../../core/search.js";
import { Table } from "../../core/table.js";

const PERIOD_MS = 3000;
const MANUAL = "https://github.com/ottla/ottla/blob/main/docs/security.md";

// load(): the rows. text(row): what the search looks at. missing: [[the server's reason, title, explanation,
// heading of the manual], …]. filters: [[name in the query, label, choices, value(row)], …]. open(): shows the form that
// `?add=yes` opens. Returns { ask(), shown(): the rows that the search leaves }, or null if there are no rows to show and
// the tab says why.
export async function listing(root, view, { caption, columns, key, nothing, load, text, missing = [], filters = [], open = null, extra = [] }) {
  let rows = [];
  let shown = [];
  const table = new Table({ caption, columns, key, nothing, view, cards: true });
  const words = searchField(view, `Search ${caption}`, { placeholder: "Search", grows: true });
  const choices = filters.map(([name, label, values]) => {
    const node = h("select", { "aria-label": label, onchange: () => setQuery({ [name]: node.value }) }, options([["", label]]), values.map(option));
    return node;
  });
  const problem = h("div", { hidden: true });
  const content = h("div.stack", h("div.row", words.node, choices, extra), table.node);

  function draw() {
    const has = words.matcher();
    shown = rows.filter((row) => has(text(row)) && filters.every(([, , , value], i) => !choices[i].value || value(row) === choices[i].value));
    table.update(shown);
  }
  function follow(query) {
    filters.forEach(([name], i) => (choices[i].value = query.get(name) ?? ""));
    draw();
    if (query.get("add") && open && !document.querySelector("dialog[open]")) open();
  }
  function say(error) {
    const found = missing.find(([part]) => error.message.includes(part));
    content.hidden = Boolean(found);
    problem.hidden = false;
    replace(problem, found ? empty(found[1], h("p", found[2]), h("p", h("a", { href: `${MANUAL}#${found[3]}`, rel: "noreferrer" }, "Read how to enable it"))) : failed(error, view.refresh));
  }
  async function read() {
    rows = await load();
    problem.hidden = true;
    content.hidden = false;
    draw();
  }
  root.append(problem, content);
  try {
    const state = await view.get("security", { of: view.params.tab ?? "users" });
    if (state.missing) throw new Error(state.missing);
    await read();
  } catch (error) {
    if (view.signal.aborted) throw error;
    say(error);
    content.hidden = true;
    return null;
  }
  const ask = poll(PERIOD_MS, read, view.signal, say);
  view.onquery = follow;
  follow(view.query);
  return { ask, shown: () => shown };
}

export const option = (value) => h("option", { value }, value.toLowerCase().replaceAll("_", " "));

// The buttons of a row. actions: [[text, function, kind], …].
export const buttons = (name, actions) => h("div.row", actions.map(([text, onclick, kind]) => h("button", { class: kind, "aria-label": `${text.replace("…", "")} ${name}`, onclick }, text)));
export const actionColumn = (make) => ({ key: "actions", label: h("span.visually-hidden", "Actions"), cell: make });

// The button that opens the form of `?add=yes`, and what a form does when it is closed.
export const addButton = (text) => h("button.primary", () => setQuery({ add: "yes" }), text);
export const added = () => new URLSearchParams(location.search).get("add") && setQuery({ add: null });
