// All brokers, elections, and partitions that are being moved.

import { confirmDialog, field, formDialog } from "../core/dialog.js";
import { address, badge, brokerLink, bytes, count, get, getSession, h, options, pageHead, PARTITION, partitionName, plural, poll, post, problems, replace, setTitle, textInput } from "../core/page.js";
import { addCommands } from "../core/palette.js";
import { Table } from "../core/table.js";
import { attempt, toast } from "../core/toast.js";

const PERIOD_MS = 5000;
const MOVES_PERIOD_MS = 2000;
const MANY = 50; // partitions of a plan that are listed

export async function show(root, view) {
  setTitle("Brokers");
  const { may_change: mayChange } = await getSession();
  const notes = h("div");
  const table = brokersTable(view);
  let brokers = [];
  async function load() {
    const found = await view.get("brokers");
    brokers = found.brokers;
    table.update(brokers);
    replace(notes, problems(found.problems));
  }
  const moves = movesSection(view, mayChange);
  await load();
  moves.again();
  poll(PERIOD_MS, load, view.signal, (error) => replace(notes, problems([error.message])));
  const move = () => moveDialog(brokers.filter((one) => one.is_alive), moves.again);
  const elect = () => electionDialog(load);
  const actions = mayChange ? [["Elect leaders…", elect], ["Move partitions…", move]] : [];
  addCommands(() => actions.map(([text, run]) => ({ text, hint: "action", run })), view.signal);
  root.append(
    pageHead("Brokers", { actions: actions.map(([text, run]) => h("button", run, text)) }),
    h("div.stack", notes, table.node, moves.node),
  );
}

function brokersTable(view) {
  return new Table({
    caption: "Brokers", view, key: (one) => one.broker_id,
    columns: [
      { key: "broker", head: true, value: "broker_id", cell: (one) => [
        one.is_alive ? brokerLink(one.broker_id) : `Broker ${one.broker_id}`,
        " ", one.is_controller && badge("controller", "accent"), !one.is_alive && badge("not alive", "bad")].filter(Boolean) },
      { key: "address", wide: true, value: (one) => (one.host === null ? null : `${one.host}:${one.port}`) },
      { key: "rack", wide: true },
      { key: "leaders", label: "Leads", number: true, title: "Partitions that it leads", value: "leaders", cell: (one) =>
        (one.leaders === one.preferred_leaders && one.leaders === one.leads_preferred ? count(one.leaders) : `${count(one.leaders)} (${count(one.leads_preferred)} of ${count(one.preferred_leaders)} preferred)`) },
      { key: "replicas", number: count, wide: true },
      { key: "behind", label: "Out of sync", number: true, value: "out_of_sync", cell: (one) => (one.out_of_sync ? badge(count(one.out_of_sync), "warn") : "0") },
      { key: "size", number: bytes, value: "size_bytes" },
      { key: "dirs", label: "Log directories", number: true, wide: true, value: "log_dirs", cell: (one) => (one.failed_log_dirs ? badge(`${one.failed_log_dirs} of ${one.log_dirs} failed`, "bad") : count(one.log_dirs)) },
      { key: "version", label: "Protocol", wide: true, title: "inter.broker.protocol.version" },
    ],
  });
}

function movesSection(view, mayChange) {
  const table = new Table({
    caption: "Partitions that are being moved", view, name: "moves", key: partitionName,
    nothing: "No partition is being moved.",
    columns: [
      PARTITION,
      { key: "move", label: "Replicas", cell: (one) => `${one.replicas.filter((each) => !one.adding.includes(each)).join(", ")} → ${one.target.join(", ")}` },
      { key: "progress", number: true, value: "progress", cell: (one) => (one.progress === null ? "–" : `${Math.floor(100 * one.progress)} %`) },
      ...(mayChange ? [{ key: "cancel", label: h("span.visually-hidden", "Cancel"), cell: (one) => h("button", { "aria-label": `Cancel the move of ${partitionName(one)}`, onclick: () => cancel([one]) }, "Cancel") }] : []),
    ],
  });
  let now = [];
  const unknown = h("p.muted.small");
  const all = h("button", { hidden: true, onclick: () => cancel(now) }, "Cancel all…");
  async function load() {
    const found = await view.get("reassignments");
    now = found.moves;
    replace(unknown, found.problems.join(" "));
    all.hidden = !mayChange || now.length < 2;
    table.update(now);
  }
  const again = poll(MOVES_PERIOD_MS, load, view.signal);
  function cancel(moves) {
    const partitions = moves.map(({ topic, partition }) => ({ topic, partition }));
    confirmDialog({
      title: `Cancel the move of ${partitions.length === 1 ? partitionName(partitions[0]) : plural(partitions.length, "partition")}?`,
      consequence: "The partitions keep the replicas that they had before. What the new replicas have copied is deleted.",
      action: "Cancel the move",
      submit: async () => {
        const found = await post("reassignments:cancel", { partitions });
        tell(found, "cancelled");
        again();
      },
    });
  }
  return { again, node: h("section.stack", h("div.row", h("h2", "Moves"), all, unknown), table.node) };
}

function tell({ done, failed }, what) {
  if (failed.length) toast(`${failed[0].error}${failed.length > 1 ? `, and ${failed.length - 1} more` : ""}`, { kind: "bad" });
  if (done || !failed.length) toast(done ? `${plural(done, "partition")}: ${what}.` : "No partition needed it.");
}

function electionDialog(done) {
  const typed = textInput();
  const confirm = field("Type unclean to confirm", typed);
  const radio = (value, text, help) => h("label.row", h("input", { type: "radio", name: "type", value, checked: value === "preferred", onchange: () => choose(value) }), h("span.grow", text, h("br"), h("span.muted.small", help)));
  const choose = (value) => (confirm.hidden = value !== "unclean");
  choose("preferred");
  formDialog({
    title: "Elect leaders", action: "Elect",
    content: [
      h("p", "Of all partitions, those that need it get another leader. Clients find it by themselves."),
      radio("preferred", "Preferred leaders", "The first replica of each partition leads, if it is in sync. Nothing is lost."),
      radio("unclean", "Unclean election", "Partitions without a leader get a replica that is not in sync. Records that only the others have are lost."),
      confirm,
    ],
    submit: async (data) => {
      const type = data.get("type");
      if (type === "unclean" && typed.value !== "unclean") throw new Error("Type unclean: records may be lost.");
      tell(await post("elections", { type }), "a leader was elected");
      await done();
    },
  });
}

// Asks what to move, shows the plan, and starts it.
function moveDialog(brokers, started) {
  const topic = textInput({ name: "topic", required: true, list: "move-topics", oninput: () => forget() });
  const names = h("datalist", { id: "move-topics" });
  attempt(async () => {
    const { topics } = await get("topics");
    replace(names, options(topics.slice(0, 1000).map((one) => one.name)));
  });
  const factor = h("input", { name: "factor", type: "number", min: 1, max: brokers.length, placeholder: "as it is", oninput: () => forget() });
  const boxes = brokers.map((one) => h("label.row", h("input", { type: "checkbox", name: "broker", value: one.broker_id, checked: true, onchange: () => forget() }), `Broker ${one.broker_id}`));
  const plan = h("div", { role: "status" });
  let isPlanned = false;
  const dialog = formDialog({
    title: "Move partitions", action: "Show the plan", large: true,
    content: [
      h("p.muted", "The replicas of a topic are spread over the brokers that you choose. A replica that is on one of them stays."),
      field("Topic", topic), names,
      h("fieldset.row", h("legend", "Brokers"), boxes),
      field("Replicas of each partition", factor), plan,
    ],
    submit: async (data) => {
      const body = { topic: topic.value, brokers: data.getAll("broker").map(Number), replication_factor: factor.value ? Number(factor.value) : null, dry_run: !isPlanned };
      if (!body.brokers.length) throw new Error("Choose at least one broker.");
      const found = await post("reassignments", body);
      if (isPlanned) {
        if (found.failed.length) throw new Error(found.failed[0].error);
        toast(`${plural(found.moves.length, "partition")} of ${topic.value} ${found.moves.length === 1 ? "moves" : "move"}.`, { link: { href: address`/topics/${topic.value}`, text: "Show the topic" } });
        started();
        return true;
      }
      draw(found.moves);
      return false;
    },
  });
  function draw(moves) {
    isPlanned = moves.length > 0;
    dialog.submitButton.textContent = isPlanned ? `Move ${plural(moves.length, "partition")}` : "Show the plan";
    replace(plan, !moves.length ? h("p", "Nothing has to move: the replicas are on these brokers.") : h("ul", moves.slice(0, MANY).map((one) =>
      h("li", h("code", partitionName(one)), `: ${one.replicas.join(", ")} → ${one.target.join(", ")}`)), moves.length > MANY && h("li", `and ${count(moves.length - MANY)} more`)));
  }
  function forget() {
    isPlanned = false;
    dialog.submitButton.textContent = "Show the plan";
    replace(plan);
  }
}
