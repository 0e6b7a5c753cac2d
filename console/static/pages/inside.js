// How Kafka works inside: a frame with a tab for each view. Only the console of an Ottla broker has this.

import { absent, empty, getSession, h, pageHead, setTitle, tabs } from "../core/page.js";

const VIEWS = {
  registry: { text: "Registry", load: () => import("./inside_registry.js") },
  storage: { text: "Storage", load: () => import("./inside_storage.js") },
  replication: { text: "Replication", load: () => import("./inside_replication.js") },
  groups: { text: "Rebalances", load: () => import("./inside_groups.js") },
};

export async function show(root, view) {
  const name = view.params.view ?? "registry";
  setTitle(VIEWS[name] ? `${VIEWS[name].text} · Inside` : "Inside");
  if (!VIEWS[name]) return root.append(absent(`Inside has no page ${name}`, `The pages are ${Object.keys(VIEWS).join(", ")}.`, "/inside", "Go to the registry"));
  const { broker_id } = await getSession();
  root.append(pageHead("Inside Kafka"));
  if (broker_id === null) {
    root.append(empty("Only an Ottla broker shows this",
      h("p", "Open the console of an Ottla broker (ottla.console.listener) to see its registry, its log files and its replication.")));
    return;
  }
  root.append(tabs("Views", "/inside", Object.entries(VIEWS).map(([path, { text }]) => [path, text])));
  const body = h("div");
  root.append(body);
  await (await VIEWS[name].load()).show(body, view);
}
