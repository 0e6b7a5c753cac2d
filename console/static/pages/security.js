// Who may log in and do what: SCRAM users, ACLs, quotas, delegation tokens.

import { getSession } from "/static/core/api.js";
import { h } from "/static/core/dom.js";
import { pageHead, tabs } from "/static/core/parts.js";
import { setTitle } from "/static/core/router.js";
import { empty } from "/static/core/states.js";

const TABS = {
  users: ["Users", () => import("/static/pages/security/users.js")],
  acls: ["ACLs", () => import("/static/pages/security/acls.js")],
  quotas: ["Quotas", () => import("/static/pages/security/quotas.js")],
  tokens: ["Delegation tokens", () => import("/static/pages/security/tokens.js")],
};

export async function show(root, view) {
  const tab = view.params.tab ?? "users";
  setTitle(`${TABS[tab]?.[0] ?? tab} · Security`);
  if (!TABS[tab]) return root.append(empty(`Security has no page ${tab}`, h("a", { href: "/security" }, "Go to the users")));
  const [session, module] = await Promise.all([getSession(), TABS[tab][1]()]);
  const body = h("div.stack");
  const head = pageHead("Security");
  await module.show(body, view, session.may_change, (...buttons) => head.lastChild.append(...buttons));
  root.append(head, tabs("Security", "/security", Object.entries(TABS).map(([key, [text]]) => [key, text])), body);
}
