// One transactional id: its producer, its open transaction, and what that holds back.

import { address, brokerLink, count, duration, facts, getSession, h, pageHead, PARTITION, partitionName, poll, problems, replace, setTitle, time } from "../core/page.js";
import { Table } from "../core/table.js";
import { toast } from "../core/toast.js";
import { abortDialog, age, stateBadge } from "./transactions.js";

const PERIOD_MS = 3000;

export async function show(root, view) {
  const { id } = view.params;
  setTitle(id);
  view.absent = [`There is no transactional id ${id}`, `No coordinator knows ${id}: no producer has used it, or it has expired.`, "/transactions", "All transactions"];
  const { may_change } = await getSession();
  const path = address`transactions/${id}`;
  const abort = h("button.danger", { onclick: () => abortDialog(`${path}/abort`, producer, `Abort the transaction of ${id}?`, null, done) }, "Abort…");
  let producer;
  const [state, notes, head, note] = [h("span"), h("div"), h("div.card"), h("p.muted")];
  const table = new Table({
    caption: "Partitions of the open transaction", view, key: partitionName, nothing: "No partition waits for the end of a transaction.",
    columns: [
      PARTITION,
      { key: "start", label: "Since offset", number: true, value: "start_offset", format: count },
      { key: "stable", label: "Last stable offset", number: true, wide: true, value: "last_stable_offset", format: count },
      { key: "end", label: "High watermark", number: true, wide: true, value: "high_watermark", format: count },
      { key: "held", label: "Held back", number: true, title: "Offsets that consumers with read_committed cannot read yet", value: "held_back", format: count },
    ],
  });
  async function load() {
    const found = await view.get(path);
    producer = { producer_id: found.producer_id, producer_epoch: found.producer_epoch };
    abort.disabled = found.state !== "Ongoing";
    const isOpen = found.start_time_ms !== null;
    replace(state, stateBadge(found.state));
    replace(notes, problems(found.problems));
    replace(head, facts([
      ["Producer id", String(found.producer_id)], ["Epoch", String(found.producer_epoch)],
      ["Coordinator", brokerLink(found.coordinator)],
      ["Timeout", duration(found.timeout_ms / 1000)], ["Open for", isOpen ? age(found.start_time_ms) : "–"], ["Since", isOpen ? time(found.start_time_ms) : "–"],
    ]));
    replace(note, isOpen
      ? `If its producer does not end it, the coordinator aborts it ${duration(found.timeout_ms / 1000)} after its start.`
      : "No transaction is open.");
    table.update(found.partitions);
  }
  const done = () => {
    toast(`The transaction of ${id} is aborted, and its producer is fenced.`);
    return load();
  };
  await load();
  poll(PERIOD_MS, load, view.signal, (error) => replace(notes, problems([error.message])));
  root.append(
    pageHead(id, { crumbs: [{ href: "/transactions", text: "Transactions" }], badge: state, actions: may_change && abort }),
    h("div.stack", notes, head, note, table.node),
  );
}
