// Makes and changes nodes of the page. Text is always text: no function here takes HTML.

const SVG = "http://www.w3.org/2000/svg";

// h("a.quiet.small", { href: "/", onclick: fn }, "text", node, [more], null): an element with its classes, properties (may
// be left out) and children. Properties that begin with "on" are listeners, true is an attribute without a value, and
// null, undefined and false are left out. A function instead of properties listens for clicks. A button with a listener does
// not send the form that it is in.
export function h(tag, ...content) {
  return make((name) => document.createElement(name), tag, content);
}

export function svg(tag, ...content) {
  return make((name) => document.createElementNS(SVG, name), tag, content);
}

function make(create, tag, content) {
  const [name, ...classes] = tag.split(".");
  const node = create(name);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  const properties = content[0]?.call ? { onclick: content.shift() } : content[0]?.constructor === Object ? content.shift() : {};
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value") node.value = value;
    else setAttribute(node, key, value);
  }
  if (properties.onclick && name === "button") node.type = name;
  append(node, content);
  return node;
}

// A field for a name or an expression, which the browser neither completes nor corrects.
export const textInput = (properties) => h("input", { autocomplete: "off", spellcheck: "false", ...properties });

// The options of a field: values, or [value, text].
export const options = (list) => list.map((one) => {
  const [value, text = value] = [one].flat();
  return h("option", { value }, text);
});

function append(node, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(node, child);
    else if (child !== null && child !== undefined && child !== false) node.append(child);
  }
}

export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

// What a node already has is not written again: pages that are updated every few seconds keep focus and selection.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value === true ? "" : value)) node.setAttribute(name, value === true ? "" : value);
}

let lastId = 0;

export function newId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}
