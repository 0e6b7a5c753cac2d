// One group: members with their partitions, lag, timeline, reset of offsets.

import { confirmDialog, field, formDialog } from "../core/dialog.js";
import { absent, address, badge, count, facts, get, getSession, h, navigate, NOTHING, options, pageHead, plural, poll, post, problems, rate, replace, request, setTitle, tabs } from "../core/page.js";
import { toast } from "../core/toast.js";
import { protocol, stateBadge } from "./groups.js";

const PERIOD_MS = 2000;
const TABS = {
  members: ["Members", () => import("./group/members.js")],
  lag: ["Lag", () => import("./group/lag.js")],
  timeline: ["Timeline", () => import("./group/timeline.js")],
  reset: ["Reset offsets", () => import("./group/reset.js")],
};
const STATUS = {
  "caught-up": ["caught up", "good"], "keeping-up": ["keeps up", "good"], "catching-up": ["catching up", "warn"],
  "falling-behind": ["falling behind", "bad"], stalled: ["not read", "bad"], unknown: ["measuring", ""],
};

export async function show(root, view) {
  const name = view.params.group;
  const tab = view.params.tab ?? "members";
  const path = address`groups/${name}`;
  setTitle(`${name} · Groups`);
  if (!TABS[tab]) return root.append(absent(`A group has no page ${tab}`, `Group ${name} has the pages ${Object.keys(TABS).join(", ")}.`, address`/groups/${name}`, `Group ${name}`));
  view.absent = [`There is no group ${name}`, `Group ${name} has no member and no committed offset, or you may not be allowed to see it.`, "/groups", "All groups"];
  let group = await view.get(path);
  const [session, module] = await Promise.all([getSession(), TABS[tab][1]()]);
  const top = h("div.card");
  const notices = h("div");
  const body = h("div.stack");
  const badgePlace = h("span");
  view.onquery = () => {}; // what tabs keep in the query, they show themselves
  const update = module.show(body, { ...view, group: () => group, path, may: session.may_change, refresh: () => ask() });
  function draw() {
    replace(badgePlace, stateBadge(group.state));
    replace(top, summary(group));
    replace(notices, problems(group.problems));
    update(group);
  }
  const actions = session.may_change
    ? [h("button", () => deleteOffsets(group, path), "Delete offsets…"), h("button.danger", () => deleteGroup(name, path), "Delete group…")]
    : [];
  root.append(
    pageHead(name, { crumbs: [{ href: "/groups", text: "Groups" }], actions, badge: badgePlace }),
    h("div.stack", notices, top, h("div",
      tabs("Group", address`/groups/${name}`, Object.entries(TABS).map(([key, [text]]) => [key, text])), body)));
  draw();
  const lost = (error) => replace(notices, problems([error.status === 404 ? `Group ${name} does not exist any more.` : error.message]));
  const ask = poll(PERIOD_MS, async (signal) => ((group = await get(path, { signal })), draw()), view.signal, lost);
}

function summary(group) {
  const { coordinator, progress } = group;
  return facts([
    ["Lag", count(group.lag)],
    ["Read, records/s", rate(progress?.consumed_per_s)],
    ["Written, records/s", rate(progress?.produced_per_s)],
    ["Progress", progressText(progress)],
    ["Members", count(group.member_count)],
    ["Protocol", [group.type === "consumer" ? "consumer" : protocol(group), h("span.muted.small", ` ${group.type === "consumer" ? "KIP-848, " : ""}${group.assignor}`)]],
    group.epoch !== null && ["Epoch", count(group.epoch)],
    ["Coordinator", h("span", { title: coordinator.address }, `broker ${coordinator.broker_id}`)],
  ].filter(Boolean));
}

// How a group or a partition is doing, and when it is done.
export function progressText(progress) {
  if (!progress) return NOTHING;
  const [text, kind] = STATUS[progress.status];
  const title = progress.behind_s ? `The committed offsets are ${about(progress.behind_s)} old.` : null;
  const end = progress.caught_up_in_s ? ` in ${about(progress.caught_up_in_s)}` : "";
  const node = badge(progress.status === "catching-up" ? `caught up${end}` : text, kind);
  if (title) node.title = title;
  return node;
}

function about(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${count(Math.round(seconds / 86400))} days`;
}

function deleteGroup(name, path) {
  confirmDialog({
    title: `Delete group ${name}`, action: "Delete group", typed: name,
    consequence: "The group and all its committed offsets are deleted. Its consumers then begin where auto.offset.reset says. This cannot be undone; it is refused while the group has members.",
    submit: async () => {
      await request("DELETE", path);
      toast(`Group ${name} was deleted.`);
      navigate("/groups");
    },
  });
}

function deleteOffsets(group, path) {
  const topics = [...new Set(group.partitions.filter((one) => one.committed !== null).map((one) => one.topic))];
  if (!topics.length) return toast(`Group ${group.group_id} has no committed offsets.`);
  formDialog({
    title: "Delete committed offsets", action: "Delete offsets", kind: "danger",
    content: [
      h("p", `Group ${group.group_id} forgets where it was in the topic: its consumers then begin where auto.offset.reset says. It is refused while a member is subscribed to the topic.`),
      field("Topic", h("select", { name: "topic" }, options(topics))),
    ],
    submit: async (form) => {
      const topic = form.get("topic");
      const { offsets } = await request("DELETE", path + address`/offsets/${topic}`);
      const said = `${plural(offsets.length, "committed offset")} of ${topic}`;
      toast(`${said} deleted.`, {
        link: { href: address`/groups/${group.group_id}/lag`, text: "Show lag" },
        undo: () => post(`${path}/offsets:apply`, { offsets: offsets.map((one) => ({ ...one, current: null })) }), undone: `${said} restored.`,
      });
    },
  });
}
