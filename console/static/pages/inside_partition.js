// The form that chooses a partition, for the views about one.

import { cluster, get, h, navigate, options, textInput } from "../core/page.js";

const OFFERED = 1000;

// The topics that the reader sees, and a partition.
export async function partitionForm(view) {
  const { data } = await get(await cluster("/topics"), { signal: view.signal });
  const names = data.map((one) => one.topic_name);
  const topic = textInput({ id: "inside-topic", list: "inside-topics", value: view.query.get("topic") ?? "", required: true });
  const partition = h("input", { id: "inside-partition", type: "number", min: 0, max: 999999, value: view.query.get("partition") ?? "0" });
  const go = (event) => {
    event.preventDefault();
    navigate(`${location.pathname}?${new URLSearchParams({ topic: topic.value, partition: partition.value || 0 })}`);
    view.refresh();
  };
  return h("form.card.row", { onsubmit: go, "aria-label": "Partition" },
    h("label", { for: "inside-topic" }, "Topic"), topic, h("datalist", { id: "inside-topics" }, options(names.slice(0, OFFERED))),
    h("label", { for: "inside-partition" }, "Partition"), partition, h("button.primary", "Show"));
}
