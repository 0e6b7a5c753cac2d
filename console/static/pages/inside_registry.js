// The registry tree: the nodes on the way to the chosen one with their children, and the chosen one in detail. Live: the
// server tells which of them have changed.

import { ApiError, badge, bytes, clockTime, copyButton, count, empty, events, facts, failed, h, plural, replace, section, setQuery, setText, time, whileVisible, withQuery } from "../core/page.js";

const CHANGES_SHOWN = 20;
const RECENT_MS = 4000;
const link = (path) => withQuery(location.pathname, { path: path === "/" ? null : path });

// "/a/b" → ["/", "/a", "/a/b"]
function wayTo(path) {
  const names = path.split("/").filter(Boolean);
  return ["/", ...names.map((_, index) => `/${names.slice(0, index + 1).join("/")}`)];
}

export async function show(root, view) {
  const nodes = new Map();
  const changes = [];
  const tree = h("nav.card.inside-tree", { "aria-label": "Registry tree" });
  const detail = h("div.stack", { "aria-live": "off" });
  const log = h("div");
  const filter = h("input", { type: "search", placeholder: "Filter children", "aria-label": "Filter the children of this node by name", value: view.query.get("contains") ?? "", oninput: () => setQuery({ contains: filter.value }) });
  const matches = h("span.muted");
  const found = h("section.card.row", { hidden: true }, filter, matches);
  let loaded = null;
  let turn = 0;

  const chosen = () => view.query.get("path") ?? "/";

  async function read(path) {
    const contains = path === chosen() ? view.query.get("contains") : null;
    try {
      nodes.set(path, await view.get("inside/registry", { path, contains }));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      nodes.set(path, { path, error, children: [] });
    }
  }

  async function load(paths) {
    const mine = ++turn;
    await Promise.all(paths.map(read));
    if (mine === turn) draw();
  }

  function follow(signal) {
    const way = wayTo(chosen());
    const query = new URLSearchParams(way.map((path) => ["path", path]));
    events(`inside/registry/events?${query}`, {
      changed: ({ paths }) => {
        for (const path of paths) changes.unshift({ path, at: Date.now() });
        changes.splice(CHANGES_SHOWN);
        load(paths.length ? paths : way);
      },
    }, signal);
    loaded = load(way);
  }

  function draw() {
    const keepsFocus = tree.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const scroll = tree.scrollTop;
    replace(tree, branch("/", nodes, chosen()));
    tree.scrollTop = scroll;
    if (keepsFocus) [...tree.querySelectorAll("a")].find((one) => one.getAttribute("href") === keepsFocus)?.focus({ preventScroll: true });
    const node = nodes.get(chosen());
    if (node) replace(detail, described(node, changes[0]));
    found.hidden = !filter.value && !(node?.children_found > node?.children.length);
    if (!found.hidden) setText(matches, `${plural(node?.children_found ?? 0, "child", "children")} ${filter.value ? "with this text in the name" : ""}`);
    replace(log, changes.length
      ? h("ul.lines.small", changes.map(({ path, at }) => h("li", h("span.muted", clockTime(at)), " ", h("a", { href: link(path) }, path))))
      : h("p.muted", "None since you look at this page. Changes of the nodes on the way to the chosen one appear here at once."));
  }

  let before = chosen();
  view.onquery = () => {
    if (document.activeElement !== filter) filter.value = view.query.get("contains") ?? "";
    if (chosen() === before) return load([chosen()]);
    before = chosen();
    return again();
  };
  root.append(
    h("div.inside-registry", tree,
      h("div.stack", found, detail, section("Live changes", log))),
  );
  const again = whileVisible(view.signal, follow);
  await loaded;
}

// A node's children, and those of the node on the way to the chosen one.
function branch(path, nodes, chosen) {
  const node = nodes.get(path);
  const isChosen = path === chosen;
  const name = path === "/" ? "/" : path.split("/").at(-1);
  return h("ul", h("li", entry(path, name, isChosen, null), node && children(node, nodes, chosen)));
}

function children(node, nodes, chosen) {
  if (!node.children.length) return null;
  const more = node.children_found - node.children.length;
  return h("ul",
    node.children.map((child) => {
      const isOnWay = chosen === child.path || chosen.startsWith(`${child.path}/`);
      const inner = isOnWay && nodes.get(child.path);
      return h("li", entry(child.path, child.name, child.path === chosen, child), inner && children(inner, nodes, chosen));
    }),
    more > 0 && h("li.muted.small", `and ${count(more)} more: use the filter`));
}

function entry(path, name, isChosen, child) {
  return h("a", { href: link(path), "aria-current": isChosen ? "true" : null }, name,
    child?.is_ephemeral && [" ", h("span.mark", { "aria-hidden": "true", title: "Ephemeral: ends with the session of its owner" }, "◌"), h("span.visually-hidden", "ephemeral")],
    child?.children > 0 && h("span.muted.small", ` ${count(child.children)}`));
}

// ZooKeeper has no time for the nodes that it begins with: 0.
const since = (ms) => time(ms || null);

function described(node, lastChange) {
  const title = h("h2.mono", node.path);
  if (node.error?.status === 404) return h("section.card", empty(`There is no node ${node.path}`, h("p", "If it is created, it appears here.")));
  if (node.error) return h("section.card.stack", title, failed(node.error));
  const isRecent = lastChange?.path === node.path && Date.now() - lastChange.at < RECENT_MS;
  const owner = node.ephemeral_owner && (node.owner_broker === null ? `session ${node.ephemeral_owner}` : `broker ${node.owner_broker}, session ${node.ephemeral_owner}`);
  return h("section.card.stack",
    h("div.row", title, node.ephemeral_owner && badge("ephemeral", "accent"), isRecent && badge("changed", "good"), h("span.grow"), copyButton(node.path, "Copy path")),
    h("p", node.meaning),
    node.content === null
      ? h("p.muted", node.note ?? "The node has no content.")
      : [h("pre.inside-content", { tabindex: "0", role: "region", "aria-label": "Content" }, node.content), node.note && h("p.muted.small", node.note)],
    facts([
      ["Version", count(node.version)], ["Children's version", count(node.child_version)], ["Size", bytes(node.data_length)],
      ["Created", [since(node.created_ms), h("div.muted.small.mono", node.czxid)]],
      ["Changed", [since(node.changed_ms), h("div.muted.small.mono", node.mzxid)]],
      ...(owner ? [["Owner", owner]] : []),
      ["ACL", node.acl.map((one) => h("div.small", `${one.scheme}:${one.id} ${one.permissions.length === 5 ? "all" : one.permissions.join(", ")}`))],
    ]));
}
