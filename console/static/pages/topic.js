// The page of a topic: its head, and the tab that the path names. A tab is a module `topic/TAB.js` with
// `show(root, view, topic)`; topic: what /api/v1/topics/NAME answers.

import { ApiError, address, get } from "/static/core/api.js";
import { h, replace } from "/static/core/dom.js";
import { badge, pageHead, tabs } from "/static/core/parts.js";
import { setTitle } from "/static/core/router.js";
import { empty, failed } from "/static/core/states.js";

// The path of each tab and its name; the first is shown without one.
const TABS = [["danger", "Danger"]];

export async function show(root, view) {
  const { topic: name, tab = TABS[0][0] } = view.params;
  setTitle(name);
  if (!TABS.some(([path]) => path === tab)) {
    root.append(noTab(name, tab));
    return;
  }
  const loaded = import(`/static/pages/topic/${tab}.js`);
  loaded.catch(() => {}); // awaited below
  let topic;
  try {
    topic = await get(address`/api/v1/topics/${name}`, { signal: view.signal });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    root.append(noTopic(name));
    return;
  }
  const panel = h("div", {});
  const pathOf = (path) => address`/topics/${name}/${path}`;
  root.append(
    pageHead(name, { crumbs: [{ href: "/topics", text: "Topics" }], badge: [topic.is_internal && badge("internal"), health(topic)] }),
    tabs("Topic", TABS.map(([path, text], index) => ({ href: index || view.params.tab ? pathOf(path) : address`/topics/${name}`, text }))),
    panel,
  );
  try {
    await (await loaded).show(panel, view, topic);
  } catch (error) {
    if (view.signal.aborted) return;
    replace(panel, failed(error, view.refresh));
  }
}

// A badge that says whether all replicas of a topic are there.
export function health({ offline, under_replicated }) {
  if (offline) return badge(`${offline} offline`, "bad");
  return under_replicated ? badge(`${under_replicated} under-replicated`, "warn") : badge("healthy", "good");
}

function noTopic(name) {
  return empty(`There is no topic ${name}`,
    h("p", {}, "It may have been deleted, or you may not be allowed to see it."), h("p", {}, h("a", { href: "/topics" }, "All topics")));
}

function noTab(name, tab) {
  return empty(`A topic has no page ${tab}`, h("p", {}, h("a", { href: address`/topics/${name}` }, `Topic ${name}`)));
}
