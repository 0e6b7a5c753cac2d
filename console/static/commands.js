// What the palette offers besides the pages: asked when it opens.

import { address, get, getSession } from "/static/core/api.js";

export const COMMANDS = [topics, groups, changes, inside];

async function topics() {
  const found = await get("/api/v1/topics");
  return found.topics.map(({ name }) => ({ text: name, hint: "topic", href: address`/topics/${name}` }));
}

async function changes() {
  const { may_change } = await getSession();
  return may_change ? [{ text: "Create topic", hint: "action", href: "/topics?create=yes" }] : [];
}

async function groups() {
  return (await import("/static/pages/groups.js")).groupCommands();
}

async function inside() {
  const { broker_id } = await getSession();
  if (broker_id === null) return [];
  return ["registry", "storage", "replication"].map((name) => ({ text: `Inside: ${name}`, hint: "page", href: `/inside/${name}` }));
}
