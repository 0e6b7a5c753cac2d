// Access control lists: search, add with a preview, delete with a preview and a way back.

import { field, formDialog } from "../../core/dialog.js";
import { badge, cluster, h, options, plural, post, replace, request, textInput, withQuery } from "../../core/page.js";
import { toast } from "../../core/toast.js";
import { actionColumn, addButton, added, buttons, listing, option } from "./listing.js";

const FIELDS = ["resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission"];
const OPERATIONS = {
  TOPIC: ["READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"],
  GROUP: ["READ", "DESCRIBE", "DELETE"],
  CLUSTER: ["CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"],
  TRANSACTIONAL_ID: ["WRITE", "DESCRIBE"],
  DELEGATION_TOKEN: ["DESCRIBE"],
  USER: ["CREATE_TOKENS", "DESCRIBE_TOKENS"],
};
const lower = (text) => text.toLowerCase().replaceAll("_", " ");
const only = (acl) => Object.fromEntries(FIELDS.map((name) => [name, acl[name]]));
const sentence = (acl) => `${acl.permission} ${acl.principal} from ${acl.host}: ${lower(acl.operation)} ${lower(acl.resource_type)} ${acl.resource_name}${acl.pattern_type === "PREFIXED" ? "… (prefix)" : ""}`;
const listed = (acls, kind) => h("pre.difference", { tabindex: "0", "aria-label": "ACLs" }, acls.map((acl) => h(kind, {}, `${kind === "ins" ? "+" : "-"} ${sentence(acl)}\n`)));

export async function show(root, view, may, addActions) {
  const path = await cluster("/acls");
  const removeShown = h("button.danger", () => remove(list.shown()), "Delete these…");
  const list = await listing(root, view, {
    caption: "ACLs", key: (acl) => FIELDS.map((name) => acl[name]).join("\n"), nothing: "There is no ACL, or none has these words.",
    load: async () => (await view.get(path)).data,
    text: sentence,
    filters: [["resource", "All resources", Object.keys(OPERATIONS), (acl) => acl.resource_type], ["permission", "Allow and deny", ["ALLOW", "DENY"], (acl) => acl.permission]],
    missing: [
      ["SECURITY_DISABLED", "This cluster has no authorizer", "Everybody who can connect may do everything. The setting authorizer.class.name of the brokers enables ACLs.", "access-control-lists"],
      ["NOT_SERVED", "This cluster has no API for ACLs", "Brokers have it from Kafka 0.11 on.", "access-control-lists"],
    ],
    extra: may ? [removeShown] : [],
    open: may ? add : null,
    columns: [
      { key: "principal", head: true },
      { key: "permission", value: "permission", cell: (acl) => badge(lower(acl.permission), acl.permission === "DENY" ? "bad" : "good") },
      { key: "operation", value: (acl) => lower(acl.operation) },
      { key: "resource", value: (acl) => `${acl.resource_type} ${acl.resource_name}`, cell: (acl) => [`${lower(acl.resource_type)} `, h("code", acl.resource_name), acl.pattern_type === "PREFIXED" && h("span.muted", "… prefix")].filter(Boolean) },
      { key: "host", wide: true },
      ...(may ? [actionColumn((acl) => buttons(sentence(acl), [["Delete…", () => remove([acl]), "danger"]]))] : []),
    ],
  });
  if (may && list) addActions(addButton("Add ACLs…"));

  const create = (acls) => post(`${path}:batch`, { data: acls.map(only) });

  function remove(acls) {
    if (!acls.length) return toast("No ACL is shown: there is nothing to delete.", { kind: "bad" });
    const gone = [];
    formDialog({
      title: `Delete ${plural(acls.length, "ACL")}?`, action: "Delete", kind: "danger", large: true,
      content: [h("p", "These are deleted. Who has no other ACL that allows it is refused at once; where a deny is deleted, an allow takes effect."), listed(acls, "del")],
      submit: async () => {
        for (const acl of acls) {
          if (gone.includes(acl)) continue; // a second try after an error
          await request("DELETE", withQuery(path, only(acl)));
          gone.push(acl);
        }
        toast(`${plural(gone.length, "ACL")} deleted.`, { undo: async () => (await create(gone), list.ask()), undone: `${plural(gone.length, "ACL")} restored.` });
        list.ask();
      },
    });
  }

  function add() {
    const form = aclForm(view.query.get("principal") ?? "User:");
    formDialog({
      title: "Add ACLs", action: "Add", large: true, closed: added, content: form.content,
      submit: async () => {
        const acls = form.wanted();
        await create(acls);
        toast(`${plural(acls.length, "ACL")} added:`, { link: { href: `/security/acls?q=${encodeURIComponent(acls[0].principal)}`, text: `all of ${acls[0].principal}` } });
        list.ask();
      },
    });
    form.start();
  }
}

// The fields of new ACLs. Returns { content, wanted(): the ACLs that they describe, start() }.
function aclForm(who) {
  const changed = { onchange: () => draw(), oninput: () => draw() };
  const text = (value, more = {}) => textInput({ value, ...changed, ...more });
  const select = (...children) => h("select", changed, children);
  const kind = select(options([["producer", "What a producer needs"], ["consumer", "What a consumer needs"], ["one", "One operation"]]));
  const principal = text(who, { required: true });
  const host = text("*", { required: true });
  const permission = select(option("ALLOW"), option("DENY"));
  const pattern = select(option("LITERAL"), option("PREFIXED"));
  const topic = text("");
  const group = text("");
  const transactional = text("");
  const idempotent = h("input", { type: "checkbox", ...changed });
  const type = select(Object.keys(OPERATIONS).map(option));
  const name = text("");
  const operation = select();
  const preview = h("div", { role: "status" });
  const fields = {
    topic: field("Topic", topic), group: field("Group", group), transactional: field("Transactional id", transactional, { help: "Empty: none." }),
    idempotent: h("label", idempotent, " Idempotent write on the cluster, for brokers before Kafka 2.8"),
    type: field("Resource", type), name: field("Name", name), operation: field("Operation", operation),
  };
  const FIELDS_OF = { producer: ["topic", "transactional", "idempotent"], consumer: ["topic", "group"], one: ["type", "name", "operation"] };

  function wanted() {
    const rule = { principal: principal.value, host: host.value, permission: permission.value };
    const on = (resource_type, resource_name, operations) => operations.map((one) => ({ ...rule, resource_type, resource_name, pattern_type: resource_type === "CLUSTER" ? "LITERAL" : pattern.value, operation: one }));
    if (kind.value === "producer") {
      return [
        ...on("TOPIC", topic.value, ["WRITE", "DESCRIBE", "CREATE"]),
        ...(transactional.value ? on("TRANSACTIONAL_ID", transactional.value, ["WRITE", "DESCRIBE"]) : []),
        ...(idempotent.checked ? on("CLUSTER", "kafka-cluster", ["IDEMPOTENT_WRITE"]) : []),
      ];
    }
    if (kind.value === "consumer") return [...on("TOPIC", topic.value, ["READ", "DESCRIBE"]), ...on("GROUP", group.value, ["READ"])];
    return on(type.value, type.value === "CLUSTER" ? "kafka-cluster" : name.value, [operation.value]);
  }

  function draw() {
    if (operation.dataset.of !== type.value) replace(operation, ["ALL", ...OPERATIONS[type.value]].map(option));
    operation.dataset.of = type.value;
    const used = FIELDS_OF[kind.value];
    for (const [key, node] of Object.entries(fields)) node.hidden = !used.includes(key) || (key === "name" && type.value === "CLUSTER");
    for (const [key, control] of Object.entries({ topic, group, name })) control.required = !fields[key].hidden;
    const acls = wanted();
    const isComplete = /^[^:]+:.+$/.test(principal.value) && host.value && acls.every((acl) => acl.resource_name);
    principal.setCustomValidity(/^[^:]+:.+$/.test(principal.value) ? "" : "Type and name, such as User:alice");
    replace(preview, isComplete ? [h("p", `${plural(acls.length, "ACL")} to add:`), listed(acls, "ins")] : h("p.muted", "Fill in the fields to see which ACLs are added."));
  }

  return {
    wanted,
    start: () => (draw(), principal.focus()),
    content: [
      field("What", kind),
      h("div.columns", field("Principal", principal, { help: "User:alice, or User:* for everybody." }), field("Permission", permission), field("Host", host, { help: "An IP address, or * for all." }), field("Names are", pattern, { help: "Prefixed: all resources whose name begins so. * is every resource." })),
      h("div.columns", Object.values(fields)),
      preview,
    ],
  };
}
