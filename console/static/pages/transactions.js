// Transactional ids by state and age, and hanging transactions.

import { formDialog } from "../core/dialog.js";
import { address, badge, brokerLink, count, duration, failed, getSession, h, loading, options, pageHead, PARTITION, plural, poll, post, problems, replace, setQuery, setTitle, time } from "../core/page.js";
import { searchField } from "../core/search.js";
import { Table } from "../core/table.js";
import { attempt, toast } from "../core/toast.js";

const PERIOD_MS = 3000;
const KINDS = { Ongoing: "accent", PrepareCommit: "warn", PrepareAbort: "warn", PrepareEpochFence: "warn", Dead: "bad" };

export const stateBadge = (state) => badge(state, KINDS[state] ?? "");
export const age = (startMs) => (startMs === null ? "–" : duration(Math.max(0, Date.now() - startMs) / 1000));

// Asks before an abort, with what the server says that it does. done: called after it.
export const abortDialog = (path, asked, title, warning, done) => attempt(async () => {
  const { text } = await post(path, { ...asked, dry_run: true });
  formDialog({
    title, action: "Abort the transaction", kind: "danger",
    content: [h("p", text), h("p", "Its records cannot be committed afterwards. ", warning)],
    submit: async () => {
      await post(path, asked);
      await done();
    },
  });
});

export async function show(root, view) {
  setTitle("Transactions");
  const { may_change: mayChange } = await getSession();
  const notes = h("div");
  const words = searchField(view, "Search transactions", { placeholder: "Search transactional ids or producer ids", grows: true });
  const state = h("select", { "aria-label": "State", onchange: () => setQuery({ state: state.value }) });
  const table = new Table({
    caption: "Transactions", view, key: (one) => one.transactional_id, sort: "start",
    nothing: "No transactional id is in use, or none has these words.",
    columns: [
      { key: "id", label: "Transactional id", head: true, value: "transactional_id", cell: (one) => h("a", { href: address`/transactions/${one.transactional_id}` }, one.transactional_id) },
      { key: "state", label: "State", format: stateBadge },
      { key: "start", label: "Open for", number: true, value: (one) => one.start_time_ms ?? Infinity, cell: (one) => age(one.start_time_ms) },
      { key: "producer", label: "Producer id", number: true, wide: true, value: "producer_id" },
      { key: "coordinator", label: "Coordinator", number: true, wide: true, format: brokerLink },
    ],
  });
  let all = [];
  function draw() {
    const wanted = view.query.get("state") ?? "";
    const states = [...new Set([...all.map((one) => one.state), ...(wanted ? [wanted] : [])])].sort();
    const shown = ["", ...states].join();
    if (state.dataset.shown !== shown) replace(state, options([["", "All states"], ...states]));
    state.dataset.shown = shown;
    state.value = wanted;
    const has = words.matcher();
    table.update(all.filter((one) => (!wanted || one.state === wanted) && has(`${one.transactional_id} ${one.producer_id}`)));
  }
  async function load() {
    const found = await view.get("transactions");
    all = found.transactions;
    replace(notes, problems(found.problems));
    draw();
  }
  view.onquery = draw;
  await load();
  poll(PERIOD_MS, load, view.signal, (error) => replace(notes, problems([error.message])));
  root.append(
    pageHead("Transactions"),
    h("div.stack", notes, h("div.row", words.node, state), table.node, hanging(view, mayChange)),
  );
}

// -- hanging transactions -----------------------------------------------------------------------------------------------

function hanging(view, mayChange) {
  const body = h("div");
  const minutes = h("input", { type: "number", min: 0, max: 999999, value: view.query.get("minutes") ?? "15", id: "hanging-minutes" });
  const button = h("button", "Search again");
  async function search() {
    button.disabled = true;
    const done = loading(body, "Searching…");
    try {
      const found = await view.get("hanging-transactions", { max_timeout_minutes: minutes.value });
      replace(body, result(found));
    } catch (error) {
      if (!view.signal.aborted) replace(body, failed(error, search));
    } finally {
      done();
      button.disabled = false;
    }
  }
  function result(found) {
    const said = found.problems.map((one) => h("p.notice", one));
    if (!found.hanging.length) return [said, h("p.muted", `None in ${plural(found.searched_partitions, "partition")}.`)];
    const table = new Table({
      caption: "Hanging transactions", view, name: "hanging", key: (one) => `${one.topic}-${one.partition}-${one.producer_id}`,
      columns: [
        PARTITION,
        { key: "producer", label: "Producer", number: true, value: "producer_id", cell: (one) => `${one.producer_id} (epoch ${one.producer_epoch})` },
        { key: "offset", label: "Since offset", number: true, wide: true, value: "start_offset", format: count },
        { key: "last", label: "Last record", wide: true, value: "last_timestamp_ms", format: time },
        ...(mayChange ? [{ key: "abort", label: h("span.visually-hidden", "Abort"), cell: (one) => h("button.danger", { onclick: () => abort(one) }, "Abort…") }] : []),
      ],
    });
    table.update(found.hanging);
    return [said, table.node];
  }
  function abort({ topic, partition, producer_id, producer_epoch, start_offset }) {
    const asked = { topic, partition, producer_id, producer_epoch, start_offset };
    abortDialog("hanging-transactions:abort", asked, `Abort the transaction of producer ${producer_id} in ${topic}-${partition}?`,
      "Only abort it if its producer is gone.", () => {
        toast("The transaction is aborted in", { link: { href: address`/topics/${topic}`, text: `${topic}-${partition}` } });
        return search();
      });
  }
  search();
  return h("section.stack",
    h("h2", "Hanging transactions"),
    h("p.muted", "They are open in a partition, but no coordinator knows them: nobody ends them, and consumers with read_committed wait."),
    h("form.row", { onsubmit: (event) => (event.preventDefault(), setQuery({ minutes: minutes.value === "15" ? null : minutes.value }), search()) },
      h("label", { for: "hanging-minutes" }, "Longest transaction timeout, in minutes"), minutes, button),
    body);
}
