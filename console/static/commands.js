// What the palette offers besides the pages: asked when it opens.

import { address, get, getSession } from "./core/api.js";

export const COMMANDS = [topics, groups, changes, security, inside];

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

function security() {
  return ["users", "acls", "quotas", "tokens"].map((name) => ({ text: `Security: ${name}`, hint: "page", href: `/security/${name}` }));
}

async function inside() {
  const { broker_id } = await getSession();
  if (broker_id === null) return [];
  return ["registry", "storage", "replication"].map((name) => ({ text: `Inside: ${name}`, hint: "page", href: `/inside/${name}` }));
}
