// Elements. Whatever comes from a job becomes a text node or an attribute's value: nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element: h("td", {class: "number", title: text, onclick: handler, style: {width: "4em"}}, ...children). */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An element of a drawing. */
export function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "style")
      for (const [property, of] of Object.entries(value)) element.style.setProperty(property, of);
    else setAttribute(element, name, value);
  }
  append(element, children);
  return element;
}

function append(parent, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(parent, child);
    else if (child instanceof Node) parent.append(child);
    else if (child !== null && child !== undefined && child !== false) parent.append(String(child));
  }
}

/** Replace all that is in an element. */
export function replace(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
  return parent;
}

/** Set an attribute if it has changed; null, undefined and false take it away, true sets it without a value. */
export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/** Set the text of an element if it has changed. */
export function setText(element, text) {
  const wanted = text === null || text === undefined ? "" : String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** Set a property of an element's style if it has changed. */
export function setStyle(element, property, value) {
  if (element.style.getPropertyValue(property) !== value) element.style.setProperty(property, value);
}

/**
 * Make the children of an element those of a list, in its order, and keep those that stay: focus, selection and scroll
 * are not lost. `keyOf(item)` tells items apart, `make(item)` makes the element of one that is new, `update(element,
 * item)` sets what it shows; it is called for new ones too.
 */
export function reconcile(parent, items, keyOf, make, update) {
  const known = parent.knownChildren ?? new Map();
  const wanted = new Map();
  let place = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    const element = known.get(key) ?? make(item);
    wanted.set(key, element);
    update?.(element, item);
    if (element === place) place = place.nextSibling;
    else parent.insertBefore(element, place);
  }
  for (const [key, element] of known) if (!wanted.has(key)) element.remove();
  parent.knownChildren = wanted;
}
