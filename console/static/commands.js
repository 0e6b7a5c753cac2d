// What the palette offers besides the pages: asked when it opens.

import { address, get, getSession } from "/static/core/api.js";

export const COMMANDS = [topics, groups, changes];

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
