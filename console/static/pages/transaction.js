// One transactional id: its producer, its open transaction, and what that holds back.

import { address, get } from "/static/core/api.js";
import { h, replace } from "/static/core/dom.js";
import { count, duration, time } from "/static/core/format.js";
import { facts, pageHead } from "/static/core/parts.js";
import { poll } from "/static/core/poll.js";
import { setTitle } from "/static/core/router.js";
import { Table } from "/static/core/table.js";
import { age, stateBadge } from "/static/pages/transactions.js";

const PERIOD_MS = 3000;

export async function show(root, view) {
  const { id } = view.params;
  setTitle(id);
  const [state, problems, head, note] = [h("span"), h("div.notice", { role: "status", hidden: true }), h("div.card"), h("p.muted")];
  const table = new Table({
    caption: "Partitions of the open transaction", signal: view.signal, query: view.query, key: (one) => `${one.topic}-${one.partition}`, nothing: "No partition waits for the end of a transaction.",
    columns: [
      { key: "partition", label: "Partition", head: true, value: (one) => `${one.topic}-${one.partition}`, cell: (one) => h("a", { href: address`/topics/${one.topic}` }, `${one.topic}-${one.partition}`) },
      { key: "start", label: "Since offset", number: true, value: (one) => one.start_offset, cell: (one) => count(one.start_offset) },
      { key: "stable", label: "Last stable offset", number: true, wide: true, value: (one) => one.last_stable_offset, cell: (one) => count(one.last_stable_offset) },
      { key: "end", label: "High watermark", number: true, wide: true, value: (one) => one.high_watermark, cell: (one) => count(one.high_watermark) },
      { key: "held", label: "Held back", number: true, title: "Offsets that consumers with read_committed cannot read yet", value: (one) => one.held_back, cell: (one) => count(one.held_back) },
    ],
  });
  async function load() {
    const found = await get(address`/api/v1/transactions/${id}`, { signal: view.signal });
    const isOpen = found.start_time_ms !== null;
    replace(state, stateBadge(found.state));
    problems.hidden = !found.problems.length;
    replace(problems, found.problems.map((one) => h("p", one)));
    replace(head, facts([
      ["Producer id", String(found.producer_id)], ["Epoch", String(found.producer_epoch)],
      ["Coordinator", h("a", { href: `/brokers/${found.coordinator}` }, `Broker ${found.coordinator}`)],
      ["Timeout", duration(found.timeout_ms / 1000)], ["Open for", isOpen ? age(found.start_time_ms) : "–"], ["Since", isOpen ? time(found.start_time_ms) : "–"],
    ]));
    replace(note, isOpen
      ? `If its producer does not end it, the coordinator aborts it ${duration(found.timeout_ms / 1000)} after its start.`
      : "No transaction is open.");
    table.update(found.partitions);
  }
  await load();
  poll(PERIOD_MS, load, view.signal, (error) => {
    problems.hidden = false;
    replace(problems, h("p", error.message));
  });
  root.append(
    pageHead(id, { crumbs: [{ href: "/transactions", text: "Transactions" }], badge: state }),
    h("div.stack", problems, head, note, table.node),
  );
}
