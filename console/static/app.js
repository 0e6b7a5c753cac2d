// The start of the console: navigation, palette, the page of the current path.

import { COMMANDS } from "/static/commands.js";
import { getSession } from "/static/core/api.js";
import { h, replace } from "/static/core/dom.js";
import { addCommands, startPalette } from "/static/core/palette.js";
import { start } from "/static/core/router.js";
import { NAVIGATION, ROUTES } from "/static/routes.js";

async function showSession() {
  const { user, may_change, broker_id } = await getSession();
  const words = [broker_id === null ? null : `broker ${broker_id}`, user, may_change ? null : "read-only"];
  document.getElementById("session").textContent = words.filter(Boolean).join(" · ");
}

replace(document.getElementById("navigation"), NAVIGATION.map(({ href, text }) => h("a", { href }, text)));
addCommands(() => NAVIGATION.map(({ href, text }) => ({ href, text, hint: "page" })));
COMMANDS.forEach((source) => addCommands(source));
startPalette();
start(ROUTES);
showSession().catch(() => {}); // the page itself says that the server cannot be reached
