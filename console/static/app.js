// The start of the console: navigation, palette, the page of the current path.

import { COMMANDS } from "./commands.js";
import { getSession } from "./core/api.js";
import { h, replace } from "./core/dom.js";
import { addCommands, startPalette } from "./core/palette.js";
import { start } from "./core/router.js";
import { NAVIGATION, ROUTES } from "./routes.js";

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
