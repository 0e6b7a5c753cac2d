// Delegation tokens: create, renew, expire. The secret is shown once, when the token is created.

import { field, formDialog } from "../../core/dialog.js";
import { address, copyButton, h, post, textInput, time } from "../../core/page.js";
import { attempt, toast } from "../../core/toast.js";
import { actionColumn, addButton, added, buttons, listing } from "./listing.js";

const PATH = "delegation-tokens";
const HOUR_MS = 3_600_000;
const SECTION = "delegation-tokens";

export async function show(root, view, may, addActions) {
  let mayEnd = false;
  const when = (key, label, wide) => ({ key, label, wide, value: (one) => one[key], cell: (one) => time(one[key]) });
  const list = await listing(root, view, {
    caption: "delegation tokens", key: (one) => one.token_id, nothing: "There is no delegation token that you may see, or none has these words.",
    load: async () => {
      const found = await view.get(PATH);
      mayEnd = may && found.may_end;
      return found.tokens;
    },
    text: (one) => `${one.token_id} ${one.owner} ${one.renewers.join(" ")}`,
    missing: [
      ["DELEGATION_TOKEN_AUTH_DISABLED", "Delegation tokens are not enabled", "The setting delegation.token.secret.key of the brokers, the same on all, enables them.", SECTION],
      ["DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "The console has no login at the brokers", "Brokers give tokens only to users who have logged in: by SASL, or with a certificate.", SECTION],
      ["NOT_SERVED", "This cluster has no API for delegation tokens", "Brokers have it from Kafka 1.1 on.", SECTION],
    ],
    open: may ? create : null,
    columns: [
      { key: "token", head: true, value: "token_id", cell: (one) => h("code", one.token_id) },
      { key: "owner" },
      { key: "renewers", wide: true, value: (one) => one.renewers.join(", ") },
      when("issue_timestamp_ms", "Created", true), when("expiry_timestamp_ms", "Ends"), when("max_timestamp_ms", "At the latest", true),
      actionColumn((one) => (mayEnd ? buttons(one.token_id, [["Renew", () => renew(one)], ["Expire…", () => expire(one), "danger"]]) : "")),
    ],
  });
  if (may && list) addActions(addButton("Create token…"));

  function create() {
    const renewers = textInput({ placeholder: "User:alice, User:bob" });
    const hours = h("input", { type: "number", min: 1, placeholder: "the brokers' maximum" });
    formDialog({
      title: "Create a delegation token", action: "Create token", closed: added,
      content: [
        h("p", "Programs log in with it, by SCRAM, as the user whom it is created for."),
        field("Renewers", renewers, { help: "Who may renew and expire it besides its owner." }),
        field("Longest life, in hours", hours),
      ],
      submit: async () => {
        const names = renewers.value.split(",").map((one) => one.trim()).filter(Boolean);
        const made = await post(PATH, { renewers: names, max_lifetime_ms: hours.value ? Number(hours.value) * HOUR_MS : null });
        setTimeout(() => showSecret(made)); // when this dialog is closed
        list.ask();
      },
    });
  }

  function showSecret({ token, password }) {
    const line = `username="${token.token_id}" password="${password}" tokenauth="true"`;
    formDialog({
      title: "The token is created", action: "I have it", large: true, submit: () => {},
      content: [
        h("p.notice", "The password is not shown again."),
        h("p", "For sasl.jaas.config, with the module ScramLoginModule:"),
        h("pre.difference", { "aria-label": "Login" }, line),
        h("p", copyButton(line)),
      ],
    });
  }

  const end = (one, action) => post(`${PATH}${address`/${one.token_id}`}/${action}`, {});

  function renew(one) {
    attempt(async () => {
      const found = await end(one, "renew");
      list.ask();
      return found;
    }, (found) => `The token ends ${time(found.expiry_timestamp_ms)}.`);
  }

  function expire(one) {
    formDialog({
      title: "Expire the token?", action: "Expire token", kind: "danger",
      content: h("p", "No program of ", h("code", one.owner), " can log in with ", h("code", one.token_id), " afterwards. Connections that exist stay open. This cannot be undone."),
      submit: async () => {
        await end(one, "expire");
        toast("The token is expired.");
        list.ask();
      },
    });
  }
}
