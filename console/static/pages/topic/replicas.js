// Elections of leaders and reassignments of replicas, for one topic.

import { field, formDialog } from "../../core/dialog.js";
import { cluster, failed, get, h, plural, post, replace } from "../../core/page.js";
import { attempt, toast } from "../../core/toast.js";

const SHOWN = 30;

// Says what a request did; throws if no partition succeeded.
function report({ failed }, all, done, undo = null) {
  const reasons = [...new Set(failed.map((one) => `partition ${one.partition}: ${one.error}`))].slice(0, 3).join("; ");
  if (failed.length === all && all > 0) throw new Error(reasons);
  toast(failed.length ? `${done}. ${plural(failed.length, "partition")} failed: ${reasons}` : `${done}.`, { kind: failed.length ? "bad" : "good", undo });
}

export function elect(topic, rows, again) {
  const preferred = rows.filter((row) => row.leader !== null && row.leader !== row.replicas[0]);
  const without = rows.filter((row) => row.leader === null);
  const unclean = h("input", { type: "checkbox" });
  const dialog = formDialog({
    title: "Elect leaders",
    action: "Elect",
    content: [
      h("p", preferred.length
        ? `${plural(preferred.length, "partition")} of ${topic} are led by another broker than the preferred one. The preferred ones become leaders again.`
        : "All partitions with a leader are led by their preferred one."),
      without.length > 0 && h("label.notice", { "data-kind": "bad" }, unclean,
        ` ${plural(without.length, "partition")} have no leader. Elect a replica that is not in sync: records that only the others have are lost.`),
    ],
    async submit() {
      const wanted = unclean.checked ? without : preferred;
      const body = { type: unclean.checked ? "unclean" : "preferred", partitions: wanted.map(({ partition }) => ({ topic, partition })) };
      const found = await post("elections", body);
      report(found, wanted.length, `${plural(found.done, "leader")} of ${topic} elected`);
      again();
    },
  });
  const check = () => (dialog.submitButton.disabled = !(unclean.checked ? without : preferred).length);
  unclean.addEventListener("change", check);
  check();
}

// Asks for the brokers and the number of replicas, shows the plan, and starts it.
export async function reassign(topic, rows, again) {
  const brokers = (await get(await cluster("/brokers"))).data.map((one) => one.broker_id).sort((a, b) => a - b);
  const used = new Set(rows.flatMap((row) => row.replicas));
  const boxes = brokers.map((id) => h("input", { type: "checkbox", checked: used.has(id), value: String(id), onchange: preview }));
  const factor = h("input", { type: "number", min: "1", max: String(brokers.length), value: String(Math.max(...rows.map((row) => row.replicas.length))), oninput: preview });
  const plan = h("div", { role: "status" });
  let question = 0;
  const dialog = formDialog({
    title: `Move replicas of ${topic}`, action: "Move replicas", large: true, submit,
    content: [
      h("fieldset", h("legend", "Brokers that get the replicas"),
        h("div.row.choices", brokers.map((id, index) => h("label", boxes[index], ` ${id}`)))),
      field("Replicas of each partition", factor),
      plan,
    ],
  });

  const body = (isPlan) => ({
    topic, brokers: boxes.filter((box) => box.checked).map((box) => Number(box.value)), replication_factor: Number(factor.value) || null, dry_run: isPlan,
  });

  async function preview() {
    const mine = ++question;
    dialog.submitButton.disabled = true;
    const { brokers: chosen, replication_factor } = body(true);
    if (chosen.length < (replication_factor ?? 1)) {
      replace(plan, h("p.notice", `Choose at least ${plural(replication_factor ?? 1, "broker")}: each replica of a partition is on another one.`));
      return;
    }
    try {
      const { moves } = await post("reassignments", body(true));
      if (mine !== question) return;
      dialog.submitButton.disabled = !moves.length;
      replace(plan, moves.length ? planned(moves) : h("p.muted", "Nothing moves: the replicas are on these brokers already."));
    } catch (error) {
      if (mine === question) replace(plan, failed(error));
    }
  }

  async function submit() {
    const { moves, failed } = await post("reassignments", body(false));
    report({ failed }, moves.length, `${plural(moves.length - failed.length, "partition")} of ${topic} being moved`, () => cancelMoves(moves, again));
    again();
  }
  preview();
}

function planned(moves) {
  const copies = moves.reduce((sum, one) => sum + one.target.filter((id) => !one.replicas.includes(id)).length, 0);
  return [
    h("p", `${plural(moves.length, "partition")} change; ${plural(copies, "replica")} ${copies === 1 ? "is" : "are"} copied to another broker.`),
    h("div.diff.mono.choices",
      moves.slice(0, SHOWN).map((one) => h("p", `${one.partition}: ${one.replicas.join(",")} → ${one.target.join(",")}`)),
      moves.length > SHOWN && h("p", `And ${moves.length - SHOWN} more.`)),
  ];
}

export async function cancelMoves(moves, again) {
  const partitions = moves.map(({ topic, partition }) => ({ topic, partition }));
  await attempt(async () => {
    report(await post("reassignments:cancel", { partitions }), partitions.length, `${plural(partitions.length, "move")} cancelled`);
  });
  again();
}
