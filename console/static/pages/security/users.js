// SCRAM users. A password is only sent: nothing shows it again.

import { confirmDialog, field, formDialog } from "../../core/dialog.js";
import { address, badge, copyButton, count, h, post, request, textInput } from "../../core/page.js";
import { toast } from "../../core/toast.js";
import { actionColumn, addButton, added, buttons, listing } from "./listing.js";

const MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"];
const LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"; // none looks like another; 57
const LENGTH = 24;

export async function show(root, view, may, addActions) {
  const list = await listing(root, view, {
    caption: "users", key: (one) => one.name, nothing: "No user has a SCRAM credential, or none has these words.",
    load: async () => (await view.get("users")).users,
    text: (one) => one.name,
    missing: [["NOT_SERVED", "This cluster has no API for SCRAM users", "Brokers have it from Kafka 2.7 on.", "sasl-on-a-listener"]],
    open: may ? () => edit(null) : null,
    columns: [
      { key: "name", label: "User", head: true },
      { key: "credentials", label: "Logs in with", cell: (one) => h("div.row", one.credentials.map((each) => badge(`${each.mechanism} · ${count(each.iterations)} iterations`))) },
      ...(may ? [actionColumn((one) => buttons(one.name, [["Change password…", () => edit(one)], ["Delete…", () => remove(one), "danger"]]))] : []),
    ],
  });
  if (may && list) addActions(addButton("Add user…"));

  function remove({ name }) {
    confirmDialog({
      title: `Delete the user ${name}?`, action: "Delete user", typed: name,
      consequence: "All its passwords are deleted and cannot be restored. Connections that exist stay open; ACLs and quotas of the user stay.",
      submit: async () => {
        await request("DELETE", address`users/${name}`);
        toast(`The user ${name} is deleted. Its ACLs stay:`, { link: { href: `/security/acls?q=${encodeURIComponent(name)}`, text: "show them" } });
        list.ask();
      },
    });
  }

  function edit(user) {
    const name = textInput({ required: true, maxlength: 255 });
    const password = h("input", { type: "password", required: true, autocomplete: "new-password", maxlength: 1024 });
    const iterations = h("input", { type: "number", min: 4096, max: 16384, value: user?.credentials[0]?.iterations ?? 4096 });
    const mechanisms = MECHANISMS.map((one) => h("input", { type: "checkbox", value: one, checked: !user || user.credentials.some((each) => each.mechanism === one) }));
    const generate = h("button", () => ((password.value = generated()), (password.type = "text")), "Generate");
    formDialog({
      title: user ? `Change the password of ${user.name}` : "Add a user", action: user ? "Change password" : "Add user", closed: added,
      content: [
        !user && field("Name", name),
        field("Password", password, { help: "It is not shown again: copy it now." }),
        h("div.row", generate, copyButton(() => password.value, "Copy password")),
        h("fieldset", h("legend", "Mechanisms"), h("div.row", mechanisms.map((one) => h("label", one, ` ${one.value}`)))),
        field("Iterations", iterations, { help: "4,096 to 16,384. More make a stolen hash harder to guess, and logins slower." }),
      ],
      submit: async () => {
        const chosen = mechanisms.filter((one) => one.checked).map((one) => one.value);
        if (!chosen.length) throw new Error("Choose at least one mechanism.");
        const body = { password: password.value, mechanisms: chosen, iterations: Number(iterations.value) };
        const called = user ? user.name : name.value;
        if (user) await request("PUT", address`users/${called}`, { body });
        else await post("users", { name: called, ...body });
        toast(user ? `The password of ${called} is changed.` : `The user ${called} can log in now.`, { link: user ? null : { href: `/security/acls?add=yes&principal=${encodeURIComponent(`User:${called}`)}`, text: "Allow it something" } });
        list.ask();
      },
    });
  }
}

// Without bias: numbers above the last multiple of the letters are drawn again.
function generated() {
  let text = "";
  while (text.length < LENGTH) {
    const [number] = crypto.getRandomValues(new Uint8Array(1));
    if (number < 256 - (256 % LETTERS.length)) text += LETTERS[number % LETTERS.length];
  }
  return text;
}
