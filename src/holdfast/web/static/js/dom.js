// Elements: made from values, and brought up to date in place.
//
// Text only ever becomes a text node, and attributes that could carry code are never set from data.

const SVG = "http://www.w3.org/2000/svg";
const AS_PROPERTY = new Set(["value", "checked", "indeterminate", "disabled", "readOnly", "open", "selected"]);
const HANDLERS = ["onclick", "onchange", "oninput", "onkeydown", "onsubmit", "onpointermove", "onpointerleave", "onfocus", "onblur", "ontoggle"];

/** An HTML element. `key` marks it among its siblings; `slot` is an element that lives on inside it. */
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** An SVG element. */
export function s(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "key") node.hfKey = String(value);
    else if (name === "slot") { node.hfSlot = value; node.setAttribute("data-slot", ""); }
    else if (name === "vars") for (const [each, to] of Object.entries(value)) node.style.setProperty(each, to);
    else if (name === "class") node.setAttribute("class", Array.isArray(value) ? value.filter(Boolean).join(" ") : value);
    else if (typeof value === "function") node[name] = value;
    else if (AS_PROPERTY.has(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/** Makes the children of a live element equal to the given ones, and keeps every node that can stay. */
export function draw(root, ...children) {
  const wanted = document.createElement(root.nodeName);
  wanted.append(...children.flat(Infinity).filter((each) => each instanceof Node));
  morphChildren(root, wanted);
}

function morph(from, to) {
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  morphAttributes(from, to);
  for (const name of HANDLERS) if (from[name] !== to[name]) from[name] = to[name];
  from.hfKey = to.hfKey;
  if (to.hfSlot) {
    from.hfSlot = to.hfSlot;
    if (from.firstChild !== to.hfSlot) from.replaceChildren(to.hfSlot);
    return;
  }
  morphChildren(from, to);
  morphProperties(from, to);
}

function morphAttributes(from, to) {
  for (const { name } of [...from.attributes]) {
    // What is open was opened by a person.
    if (!to.hasAttribute(name) && !(name === "open" && from.nodeName === "DETAILS") && name !== "style") from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (name !== "style" && from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  if (to.style) for (const name of to.style) {
    const value = to.style.getPropertyValue(name);
    if (from.style.getPropertyValue(name) !== value) from.style.setProperty(name, value);
  }
}

function morphProperties(from, to) {
  if (!("value" in from) || from.nodeName === "LI") return;
  if (from.nodeName === "BUTTON") { from.disabled = to.disabled; return; }
  if (from === document.activeElement && from.type !== "checkbox") return;
  if (from.value !== to.value) from.value = to.value;
  if (from.type === "checkbox") { from.checked = to.checked; from.indeterminate = to.indeterminate; }
  from.disabled = to.disabled;
}

function morphChildren(from, to) {
  const keyed = new Map();
  const plain = [];
  for (const child of from.childNodes) {
    if (child.hfKey === undefined) plain.push(child);
    else keyed.set(child.hfKey, child);
  }
  const kept = new Set();
  let at = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const found = wanted.hfKey === undefined
      ? plain.find((each) => !kept.has(each) && each.nodeName === wanted.nodeName)
      : keyed.get(wanted.hfKey);
    const fits = found && !kept.has(found) && found.nodeName === wanted.nodeName;
    const node = fits ? found : wanted;
    kept.add(node);
    while (at && at !== node && !stays(at, to, kept)) at = removed(at);
    if (node === at) at = at.nextSibling;
    else from.insertBefore(node, at);
    if (fits) morph(node, wanted);
    else fill(node);
  }
  while (at) at = kept.has(at) ? at.nextSibling : removed(at);
}

/** Whether a node that is in the way will be wanted further on. */
function stays(node, to, kept) {
  if (kept.has(node)) return true;
  if (node.hfKey === undefined) return true;
  return [...to.childNodes].some((each) => each.hfKey === node.hfKey);
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

/** Puts the elements that live on into the slots of a new one. */
function fill(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return;
  for (const each of [node, ...node.querySelectorAll("[data-slot]")]) {
    if (each.hfSlot && each.firstChild !== each.hfSlot) each.replaceChildren(each.hfSlot);
  }
}
