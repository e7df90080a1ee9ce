// @ts-check
// Elements. All data from jobs becomes text nodes or attribute values: nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | bigint | false | null | undefined} Leaf */
/**
 * The content of an element; `null`, `undefined` and `false` are skipped, the items of a list are added one by one.
 *
 * @typedef {Leaf | readonly Leaf[] | readonly (Leaf | readonly Leaf[])[]} Child
 */
/** @typedef {string | number | boolean | null | undefined} AttributeValue */
/** @typedef {(event: any) => unknown} Handler */
/** @typedef {Record<string, AttributeValue | Handler>} Attributes */

/**
 * Create an element: h("td", {class: "number", title: text, onclick: handler}, ...children).
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * Create an SVG element.
 *
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * @template {Element} E
 * @param {E} element
 * @param {Attributes | undefined} attributes
 * @param {readonly Child[]} children
 */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value); // "onclick"
    else setAttribute(element, name, value);
  }
  append(element, children);
  return element;
}

/**
 * @param {Element} parent
 * @param {readonly Child[]} children
 */
function append(parent, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) parent.append(child);
    else if (typeof child === "object") append(parent, child);
    else parent.append(String(child));
  }
}

/**
 * Replace the contents of an element.
 *
 * @template {Element} E
 * @param {E} parent
 * @param {...Child} children
 */
export function replace(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
  return parent;
}

/**
 * Set an attribute if it has changed; null, undefined and false remove it, true sets it without a value.
 *
 * @param {Element} element
 * @param {string} name
 * @param {AttributeValue} value
 */
export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/**
 * Set the text of an element if it has changed.
 *
 * @param {Element} element
 * @param {string | number | null | undefined} text
 */
export function setText(element, text) {
  const wanted = text === null || text === undefined ? "" : String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/**
 * Set a property of an element's style if it has changed.
 *
 * @param {HTMLElement | SVGElement} element
 * @param {string} property
 * @param {string} value
 */
export function setStyle(element, property, value) {
  if (element.style.getPropertyValue(property) !== value) element.style.setProperty(property, value);
}

/**
 * Keeps the children of an element synchronized with a list. `show(items)` shows the items in the order of the list, and
 * reuses existing children, so that focus, selection and scroll position are kept. `get(key)` is the part for an item.
 *
 * `keyOf(item)` identifies an item. `make(item)` creates the part for a new item, an object with its `element`.
 * `update(part, item)` updates the content of a part; it is also called for new parts.
 *
 * @template T
 * @template {string | number} K
 * @template {{ element: Element }} P
 * @param {Element} parent
 * @param {(item: T) => K} keyOf
 * @param {(item: T) => P} make
 * @param {(part: P, item: T) => void} [update]
 */
export function childList(parent, keyOf, make, update) {
  /** @type {Map<K, P>} */
  let known = new Map();
  return {
    /** @param {Iterable<T>} items */
    show(items) {
      /** @type {Map<K, P>} */
      const wanted = new Map();
      let place = parent.firstChild;
      for (const item of items) {
        const key = keyOf(item);
        const part = wanted.get(key) ?? known.get(key) ?? make(item); // duplicate keys are shown once
        wanted.set(key, part);
        update?.(part, item);
        if (part.element === place) place = place.nextSibling;
        else parent.insertBefore(part.element, place);
      }
      for (const [key, part] of known) if (!wanted.has(key)) part.element.remove();
      known = wanted;
    },
    /** @param {K} key */
    get: (key) => known.get(key),
  };
}
