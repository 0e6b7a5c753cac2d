// A table that sorts, and shows only the rows that are in view: ten thousand stay fluid.
//
// columns: { key, label (default: the key), value: what it sorts by, a field of the row or a function of it (default: the
// field `key`, if there is no cell); cell(row): text or nodes (default: the value, as `format` writes it); number (true, or
// the format), wide (hidden on phones), title, head (the row's header cell) }. key(row): what identifies a row. cards: on a
// phone, a row is a card whose values have the labels of their columns. Sort order is kept in the query (`sort=-size`), under
// `name` if a page has several tables.

import { h, newId, replace, setAttribute } from "./dom.js";
import { setQuery } from "./router.js";

const ROW_PX = 38;
const MARGIN_ROWS = 20;
const ALL_BELOW = 150; // rows that are always all in the page
const ALL_CARDS_BELOW = 2000; // cards have different heights: nobody knows how much space those above need
const PHONE = "(max-width: 720px)"; // where components.css makes cards

export class Table {
  constructor({ columns, key, caption, sort = null, name = "sort", view: { signal, query }, nothing = null, cards = false }) {
    this.columns = columns.map(withFunctions);
    this.key = key;
    this.name = name;
    this.rows = [];
    this.sorted = [];
    this.made = new Map();
    this.nothing = nothing;
    this.hasCards = cards;
    this.order = query.get(name) ?? sort ?? columns[0].key;
    this.body = h("tbody");
    this.before = h("tr", { "aria-hidden": "true" });
    this.after = h("tr", { "aria-hidden": "true" });
    this.head = h("tr", this.columns.map((column) => this.#header(column)));
    this.table = h("table", { "aria-rowcount": "-1", class: cards && "cards" }, h("caption.visually-hidden", caption), h("thead", this.head), this.body);
    this.node = h("div.table-wrap", { tabindex: "0", role: "group", "aria-label": caption }, this.table);
    this.id = newId("table");
    addEventListener("scroll", () => this.#draw(), { passive: true, signal });
    addEventListener("resize", () => this.#draw(), { passive: true, signal });
  }

  #header(column) {
    const attributes = { scope: "col", class: classes(column), title: column.title };
    if (!column.value) return h("th", attributes, column.label);
    return h("th", attributes, h("button", () => this.#sortBy(column.key), column.label));
  }

  #sortBy(key) {
    this.order = this.order === key ? `-${key}` : key;
    setQuery({ [this.name]: this.order });
    this.update(this.rows);
  }

  // Shows these rows. Rows whose content has not changed keep their nodes.
  update(rows) {
    this.rows = rows;
    const isDown = this.order.startsWith("-");
    const column = this.columns.find((one) => one.key === this.order.replace(/^-/, "")) ?? this.columns[0];
    this.columns.forEach((one, index) => {
      setAttribute(this.head.cells[index], "aria-sort", one === column && one.value ? (isDown ? "descending" : "ascending") : null);
    });
    this.sorted = column.value ? [...rows].sort((a, b) => compare(column.value(a), column.value(b)) * (isDown ? -1 : 1)) : rows;
    setAttribute(this.table, "aria-rowcount", rows.length + 1);
    this.#draw(true);
  }

  #draw(isNew = false) {
    if (!isNew && (this.sorted.length <= ALL_BELOW || !this.node.isConnected)) return;
    const [first, last] = this.#visible();
    if (!isNew && first === this.first && last === this.last) return;
    [this.first, this.last] = [first, last];
    const made = new Map();
    const nodes = this.sorted.slice(first, last).map((row, index) => {
      const key = this.key(row);
      const node = this.#row(key, row, first + index);
      made.set(key, node);
      return node.tr;
    });
    this.made = made;
    setSpace(this.before, first * ROW_PX, this.columns.length);
    setSpace(this.after, (this.sorted.length - last) * ROW_PX, this.columns.length);
    const wanted = [...(first ? [this.before] : []), ...nodes, ...(last < this.sorted.length ? [this.after] : [])];
    if (!this.sorted.length && this.nothing) wanted.push(h("tr", h("td.empty", { colspan: this.columns.length }, this.nothing)));
    arrange(this.body, wanted);
  }

  #visible() {
    const all = this.hasCards && matchMedia(PHONE).matches ? ALL_CARDS_BELOW : ALL_BELOW;
    if (this.sorted.length <= all) return [0, this.sorted.length];
    const top = this.node.isConnected ? this.body.getBoundingClientRect().top : 0;
    const first = Math.max(0, Math.floor(-top / ROW_PX) - MARGIN_ROWS);
    return [Math.min(first, this.sorted.length), Math.min(this.sorted.length, first + Math.ceil(innerHeight / ROW_PX) + 2 * MARGIN_ROWS)];
  }

  #row(key, row, index) {
    const contents = this.columns.map((column) => column.cell(row) ?? "");
    let made = this.made.get(key);
    if (!made) {
      const cells = this.columns.map((column) => h(column.head ? "th" : "td", { class: classes(column), scope: column.head ? "row" : null, "data-label": column.label.length ? column.label : null }));
      made = { tr: h("tr", cells), cells, shown: [] };
    }
    setAttribute(made.tr, "aria-rowindex", index + 2);
    contents.forEach((content, i) => {
      const shown = typeof content === "object" ? [content].flat().map((one) => one?.outerHTML ?? one).join("") : String(content);
      if (made.shown[i] === shown) return;
      made.shown[i] = shown;
      replace(made.cells[i], typeof content === "object" ? content : shown);
    });
    return made;
  }
}

function withFunctions(column) {
  const { key, number, format = number?.call ? number : (shown) => shown, value = column.cell ? null : key } = column;
  const of = typeof value === "string" ? (row) => row[value] : value;
  return { label: key[0].toUpperCase() + key.slice(1), cell: (row) => format(of(row)), ...column, value: of };
}

const classes = (column) => [column.number && "number", column.wide && "wide"].filter(Boolean).join(" ") || null;

const collator = new Intl.Collator(undefined, { numeric: true }); // localeCompare would make one for each comparison

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return typeof a === "string" ? collator.compare(a, b) : a - b;
}

function setSpace(row, height, columns) {
  replace(row, h("td", { colspan: columns }));
  row.style.height = `${height}px`;
}

// Puts exactly these children into a node, and moves only those that are elsewhere: focus stays where it is.
function arrange(node, wanted) {
  const keep = new Set(wanted);
  for (const child of [...node.children]) if (!keep.has(child)) child.remove();
  wanted.forEach((child, index) => {
    if (node.children[index] !== child) node.insertBefore(child, node.children[index] ?? null);
  });
}
