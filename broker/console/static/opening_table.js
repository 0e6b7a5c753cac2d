// A table whose rows open to show another table. Each item has a <tbody>, which stays the same node as long as the item
// exists, so that the page does not flicker, open items stay open, and the selection and the focus are kept.

import { element, setAttribute, setText, show } from "/dom.js";

export class OpeningTable {
  #table;
  #kind;
  #open = new Set(); // names of the items that show their details
  #bodies = new Map(); // name -> its <tbody>
  #made = 0; // the number of items created so far, for unique ids

  // `kind` describes the table:
  //   name(item), id(item)         the item's name; an item of the same name with another id is a new item
  //   cells                        names of the columns after the first, and whether a phone shows them
  //   tag(item)                    the text after the name, or null
  //   problem(item)                {state: "warning" | "bad", text}, or null
  //   texts(item, context)         the cells' texts by name; `narrow` is shown below the name on a phone
  //   details(item), caption(item) the rows of the other table, and its caption
  //   columns                      [title, text(row)] of the other table
  //   state(row)                   "", "warning" or "bad"
  constructor(table, kind) {
    this.#table = table;
    this.#kind = kind;
  }

  // Show these items in this order, and hide those for which `matches` is false. Returns the number of visible items.
  // `context` is passed to `texts`.
  update(items, context, matches = () => true) {
    const kind = this.#kind;
    this.#removeAllBut(new Set(items.map(kind.name)));
    let at = this.#table.tHead.nextElementSibling;
    let matching = 0;
    for (const item of items) {
      let body = this.#bodies.get(kind.name(item));
      if (body && body.itemId !== kind.id(item)) { // deleted and recreated
        if (at === body) at = body.nextElementSibling;
        body.remove();
        body = undefined;
      }
      if (!body) {
        body = this.#make(item);
        this.#bodies.set(kind.name(item), body);
      }
      if (at === body) at = body.nextElementSibling;
      else this.#table.insertBefore(body, at);
      const isMatch = matches(item);
      matching += isMatch;
      show(body, isMatch);
      this.#updateRow(body, item, context);
    }
    return matching;
  }

  #removeAllBut(names) {
    for (const [name, body] of this.#bodies) {
      if (names.has(name)) continue;
      body.remove();
      this.#bodies.delete(name);
      this.#open.delete(name);
    }
  }

  #make(item) {
    const kind = this.#kind;
    const name = kind.name(item);
    const id = `${this.#table.id}-${++this.#made}`;
    const button = element("button", { type: "button", "aria-expanded": "false", "aria-controls": id });
    button.append(element("span", { class: "name" }, name));
    const heading = element("th", { scope: "row" }, button);
    const tag = kind.tag(item);
    if (tag) heading.append(element("span", { class: "tag" }, tag));
    const problem = element("span", { class: "tag", hidden: "" });
    const narrow = element("span", { class: "narrow" });
    heading.append(problem, narrow);
    const row = element("tr", {}, heading);
    const cells = { narrow };
    for (const [cell, isOnPhones] of Object.entries(kind.cells)) {
      cells[cell] = element("td", { class: isOnPhones ? "number" : "number wide" });
      row.append(cells[cell]);
    }
    const columns = String(this.#table.tHead.rows[0].cells.length);
    const details = element("tr", { class: "details", id, hidden: "" }, element("td", { colspan: columns }));
    const body = element("tbody", {}, row, details);
    Object.assign(body, { button, cells, problem, details, list: null, itemId: kind.id(item) });
    button.addEventListener("click", () => {
      if (!this.#open.delete(name)) this.#open.add(name);
      this.#updateDetails(body);
    });
    return body;
  }

  #updateRow(body, item, context) {
    const texts = this.#kind.texts(item, context);
    for (const [cell, node] of Object.entries(body.cells)) setText(node, texts[cell]);
    const problem = this.#kind.problem(item);
    show(body.problem, problem !== null);
    if (problem) {
      setText(body.problem, problem.text);
      body.problem.dataset.state = problem.state;
    }
    body.item = item;
    this.#updateDetails(body);
  }

  #updateDetails(body) {
    const { item, button, details } = body;
    const isOpen = this.#open.has(this.#kind.name(item));
    setAttribute(button, "aria-expanded", String(isOpen));
    show(details, isOpen);
    if (!isOpen) return;
    body.list ??= this.#makeDetails(details.firstChild, item);
    const { columns, state } = this.#kind;
    const list = body.list;
    const rows = this.#kind.details(item);
    while (list.rows.length > rows.length) list.deleteRow(-1);
    rows.forEach((one, index) => {
      let row = list.rows[index];
      if (!row) {
        row = list.insertRow();
        columns.forEach((_, column) => row.append(column ? element("td") : element("th", { scope: "row" })));
      }
      if ((row.dataset.state ?? "") !== state(one)) row.dataset.state = state(one);
      columns.forEach(([, text], column) => setText(row.cells[column], text(one)));
    });
  }

  #makeDetails(cell, item) {
    const caption = this.#kind.caption(item);
    const head = element("tr");
    for (const [title] of this.#kind.columns) head.append(element("th", { scope: "col" }, title));
    const list = element("tbody");
    const hidden = element("caption", { class: "visually-hidden" }, caption);
    const table = element("table", { class: "partitions" }, hidden, element("thead", {}, head), list);
    cell.append(element("div", { class: "scroller", role: "region", tabindex: "0", "aria-label": caption }, table));
    return list;
  }
}
