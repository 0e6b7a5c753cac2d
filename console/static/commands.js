// What the palette offers besides the pages: asked when it opens.

import { address, cluster, get, getSession } from "./core/api.js";

export const COMMANDS = [tabs, topics, groups, brokers, changes, security, inside];

// Those of the topic, group or broker that is shown.
function tabs() {
  const links = document.querySelector(".crumbs") ? [...document.querySelectorAll("nav.tabs a")] : [];
  return links.map((one) => ({ text: `${document.querySelector("h1").textContent}: ${one.textContent}`, hint: "tab", href: one.getAttribute("href") }));
}

async function topics() {
  const found = await get("topics");
  return found.topics.map(({ name }) => ({ text: name, hint: "topic", href: address`/topics/${name}` }));
}

async function changes() {
  const { may_change } = await getSession();
  const actions = { "Create topic": "/topics?create=yes", "Add user": "/security?add=yes", "Add ACLs": "/security/acls?add=yes", "Set quotas": "/security/quotas?add=yes" };
  return may_change ? Object.entries(actions).map(([text, href]) => ({ text, hint: "action", href })) : [];
}

async function groups() {
  return (await import("./pages/groups.js")).groupCommands();
}

async function brokers() {
  const { data } = await get(await cluster("/brokers"));
  return data.map((one) => ({ text: `Broker ${one.broker_id}`, hint: `${one.host}:${one.port}`, href: `/brokers/${one.broker_id}` }));
}

function security() {
  return ["users", "acls", "quotas", "tokens"].map((name) => ({ text: `Security: ${name}`, hint: "page", href: `/security/${name}` }));
}

async function inside() {
  const { broker_id } = await getSession();
  if (broker_id === null) return [];
  const views = { registry: "registry", storage: "storage", replication: "replication", groups: "rebalances" };
  return Object.entries(views).map(([name, text]) => ({ text: `Inside: ${text}`, hint: "page", href: `/inside/${name}` }));
}
