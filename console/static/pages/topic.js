// The page of a topic: its head, and the tab that the path names. A tab is a module `topic/TAB.js` with
// `show(root, view, topic)`; topic: what /api/v1/topics/NAME answers.

import { absent, address, badge, bytes, count, facts, failed, get, h, pageHead, poll, rate, replace, setTitle, tabs } from "../core/page.js";

const PERIOD_MS = 5000;

// The path of each tab and its name; the first is shown without one.
const TABS = [
  ["messages", "Messages"],
  ["produce", "Produce"],
  ["partitions", "Partitions"],
  ["consumers", "Consumers"],
  ["configuration", "Configuration"],
  ["danger", "Danger"],
];

export async function show(root, view) {
  const { topic: name, tab = TABS[0][0] } = view.params;
  setTitle(name);
  if (!TABS.some(([path]) => path === tab)) {
    root.append(absent(`A topic has no page ${tab}`, `Topic ${name} has the pages ${TABS.map(([, text]) => text).join(", ")}.`, address`/topics/${name}`, `Topic ${name}`));
    return;
  }
  const loaded = import(`./topic/${tab}.js`);
  loaded.catch(() => {}); // awaited below
  view.absent = [`There is no topic ${name}`, `Topic ${name} may have been deleted, or you may not be allowed to see it.`, "/topics", "All topics"];
  const topic = await view.get(address`topics/${name}`);
  const panel = h("div");
  const numbers = h("div.topic-facts");
  watchNumbers(numbers, topic, view.signal);
  root.append(
    pageHead(name, { crumbs: [{ href: "/topics", text: "Topics" }], badge: [topic.is_internal && badge("internal"), health(topic)] }),
    numbers,
    tabs("Topic", address`/topics/${name}`, TABS),
    panel,
  );
  try {
    await (await loaded).show(panel, view, topic);
  } catch (error) {
    if (view.signal.aborted) return;
    replace(panel, failed(error, view.refresh));
  }
}

// What the topic holds, and the records per second since the page was opened: kept up to date while it is looked at.
function watchNumbers(node, topic, signal) {
  let before = null;
  let perSecond = null;
  const ask = async () => {
    const { time_ms, topics } = await get("topic-statistics", { query: { topic: topic.name }, signal });
    const [found = {}] = topics;
    perSecond = recordsPerSecond(before, { ...found, time_ms }) ?? perSecond;
    before = { ...found, time_ms };
    draw(found);
  };
  const draw = ({ records, size_bytes }) => replace(node, facts([
    ["Partitions", count(topic.partitions)],
    ["Replicas", count(topic.replication_factor)],
    ["Records", h("span", { title: RECORDS }, count(records))],
    ["Records/s", h("span", { title: RATE }, rate(perSecond))],
    ["Size", h("span", { title: SIZE }, bytes(size_bytes))],
  ]));
  draw({});
  poll(PERIOD_MS, ask, signal)();
}

export const RECORDS = "End offset − start offset of all partitions: compaction and transaction markers leave gaps, which count";
export const RATE = "Records written per second, measured while this page is open";
export const SIZE = "The logs of the leaders, without other replicas";

// From two statistics with their times; null if they do not tell.
export function recordsPerSecond(before, now) {
  if (!before || typeof before.appended !== "number" || typeof now.appended !== "number" || now.time_ms <= before.time_ms) return null;
  return Math.max(0, now.appended - before.appended) / ((now.time_ms - before.time_ms) / 1000);
}

// A badge that says whether all replicas of a topic are there.
export function health({ offline, under_replicated }) {
  if (offline) return badge(`${offline} offline`, "bad");
  return under_replicated ? badge(`${under_replicated} under-replicated`, "warn") : badge("healthy", "good");
}
