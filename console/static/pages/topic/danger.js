// What destroys data of a topic.

import { address, cluster, getSession, request } from "/static/core/api.js";
import { confirmDialog } from "/static/core/dialog.js";
import { h } from "/static/core/dom.js";
import { navigate } from "/static/core/router.js";
import { toast } from "/static/core/toast.js";

export async function show(root, view, topic) {
  const { may_change } = await getSession();
  root.append(h("div", { class: "stack" },
    !may_change && h("p", { class: "notice" }, "You may look at this topic, but not change it."),
    card("Delete this topic", "Removes all its partitions with their records from every broker. This cannot be undone.",
      h("button", { type: "button", class: "danger", disabled: !may_change || topic.is_internal, onclick: () => deleteTopic(topic) }, "Delete topic…"),
      topic.is_internal && "The brokers need this topic for themselves.")));
}

function card(title, text, button, reason) {
  return h("section", { class: "card stack" }, h("h2", {}, title), h("p", {}, text), h("p", {}, button, reason && h("span", { class: "muted small" }, ` ${reason}`)));
}

export function deleteTopic({ name, partitions }) {
  confirmDialog({
    title: `Delete topic ${name}?`,
    consequence: `The topic, its ${partitions === 1 ? "partition" : `${partitions} partitions`} and all records in it are deleted on every broker. This cannot be undone.`,
    action: "Delete topic",
    typed: name,
    async submit() {
      await request("DELETE", await cluster(address`/topics/${name}`));
      toast(`Topic ${name} was deleted.`);
      navigate("/topics");
    },
  });
}
