// Who may log in and do what: SCRAM users, ACLs, quotas, delegation tokens.

import { absent, getSession, h, pageHead, setTitle, tabs } from "../core/page.js";

const TABS = {
  users: ["Users", () => import("./security/users.js")],
  acls: ["ACLs", () => import("./security/acls.js")],
  quotas: ["Quotas", () => import("./security/quotas.js")],
  tokens: ["Delegation tokens", () => import("./security/tokens.js")],
};

export async function show(root, view) {
  const tab = view.params.tab ?? "users";
  setTitle(`${TABS[tab]?.[0] ?? tab} · Security`);
  if (!TABS[tab]) return root.append(absent(`Security has no page ${tab}`, `The pages are ${Object.keys(TABS).join(", ")}.`, "/security", "Go to the users"));
  const [session, module] = await Promise.all([getSession(), TABS[tab][1]()]);
  const body = h("div.stack");
  const head = pageHead("Security");
  await module.show(body, view, session.may_change, (...buttons) => head.lastChild.append(...buttons));
  root.append(head, tabs("Security", "/security", Object.entries(TABS).map(([key, [text]]) => [key, text])), body);
}
