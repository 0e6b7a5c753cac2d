// Which page a path shows. A page is a module with `show(root, view)`; it is loaded when it is first shown.
//
// view.params: the named parts of the path. view.query: URLSearchParams. view.signal: aborted when the page is left, so
// requests, timers and listeners of a page take it; view.get(path, query) is a request that does. If only the query
// changes, `view.onquery` is called if the page has set it; otherwise the page is shown again. view.absent: what `absent` says
// if a request of the page finds nothing (404).

import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { absent, failed, loading } from "./parts.js";

let routes = [];
let current = null;

export function start(table) {
  routes = table.map(([pattern, load]) => ({ expression: toExpression(pattern), load }));
  addEventListener("popstate", () => follow());
  document.addEventListener("click", onClick);
  addEventListener("unhandledrejection", onRejection);
  follow();
}

function toExpression(pattern) {
  const text = pattern.replace(/\/:(\w+)(\?)?/g, (_, name, optional) => (optional ? `(?:/(?<${name}>[^/]+))?` : `/(?<${name}>[^/]+)`));
  return new RegExp(`^${text}/?$`);
}

function onClick(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.origin !== location.origin || link.target || link.hasAttribute("download") || !match(link.pathname)) return;
  if (link.hash && link.pathname === location.pathname && link.search === location.search) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
}

// A request of a page that has been left meanwhile: nobody waits for its answer.
function onRejection(event) {
  if (event.reason?.name === "AbortError") event.preventDefault();
}

function match(path) {
  for (const { expression, load } of routes) {
    const found = expression.exec(path);
    if (found) {
      const named = Object.entries(found.groups ?? {}).filter(([, value]) => value !== undefined);
      return { load, params: Object.fromEntries(named.map(([name, value]) => [name, decodeURIComponent(value)])) };
    }
  }
  return null;
}

export function navigate(target, { replace: instead = false } = {}) {
  if (target !== location.pathname + location.search) history[instead ? "replaceState" : "pushState"](null, "", target);
  follow(true);
}

// Changes parameters of the query, null removes one; the page is told by `onquery`. Not a new entry of the history
// unless `push` asks for one.
export function setQuery(changes, { push = false } = {}) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  const target = location.pathname + (text ? `?${text}` : "");
  if (target === location.pathname + location.search) return;
  history[push ? "pushState" : "replaceState"](null, "", target);
  follow();
}

export function setTitle(text) {
  document.title = text ? `${text} · Ottla` : "Ottla";
}

async function follow(isNavigation = false) {
  const path = location.pathname;
  const query = new URLSearchParams(location.search);
  if (current?.path === path && current.view.onquery && !current.view.signal.aborted) {
    current.view.query = query;
    current.view.onquery(query);
    return;
  }
  current?.leave.abort();
  const found = match(path);
  const leave = new AbortController();
  const { signal } = leave;
  const view = { params: found?.params ?? {}, query, signal, get: (from, asked) => get(from, { query: asked, signal }), onquery: null, absent: null, refresh: () => restart(path) };
  current = { path, view, leave };
  markNavigation(path);
  const main = document.getElementById("content");
  const root = h("div.page");
  if (isNavigation) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  const notFound = (what) => {
    setTitle("Not found");
    replace(main, absent(...what));
  };
  if (!found) return notFound(["There is no such page", `Nothing is at ${path}.`, "/", "Go to the overview"]);
  const done = loading(main);
  signal.addEventListener("abort", done); // its text would cover the page that comes next
  try {
    const page = await found.load();
    if (signal.aborted) return;
    await page.show(root, view);
    if (signal.aborted) return;
    replace(main, root);
    main.querySelectorAll(".tabs [aria-current]").forEach(reveal);
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === 404 && view.absent) notFound(view.absent);
    else replace(main, failed(error, () => restart(path)));
  } finally {
    done();
  }
}

function restart(path) {
  if (current?.path !== path) return;
  current.leave.abort();
  current = null;
  follow();
}

function markNavigation(path) {
  for (const link of document.querySelectorAll("#navigation a")) {
    const target = link.getAttribute("href");
    const isCurrent = target === "/" ? path === "/" : path === target || path.startsWith(`${target}/`);
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    if (isCurrent) reveal(link);
  }
}

// On a phone, links are wider than the window: scrolls their row, and only that, to one of them.
function reveal(link) {
  const row = link.parentElement;
  row.scrollLeft += link.getBoundingClientRect().left - row.getBoundingClientRect().left - (row.clientWidth - link.offsetWidth) / 2;
}
