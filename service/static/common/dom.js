// Creates and changes elements without a framework. No function parses text as HTML.

import { splitMark } from './text.js';

export const SVG = 'http://www.w3.org/2000/svg';

/**
 * Returns the element with an id, which index.html has.
 * @type {<Id extends string>(id: Id) => Id extends keyof PageElements ? PageElements[Id] : HTMLElement}
 */
export const byId = (id) => /** @type {any} */ (document.getElementById(id));

/**
 * Returns the first element of a kind within another, which has one.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Element} root
 * @param {Tag} tag
 */
export const within = (root, tag) =>
  /** @type {HTMLElementTagNameMap[Tag]} */ (root.querySelector(tag));

/** Returns the menu or the field that an event changed. */
export const changed = (event) =>
  /** @type {HTMLInputElement|HTMLSelectElement} */ (event.currentTarget);

/**
 * Creates an element with attributes and children.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Object<string, any>} attributes Attributes by name. `on…` adds a listener; `class` and `text` set the
 *     class and the text. False and null leave an attribute out; true gives it no value.
 * @param {...(Node|string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'text') node.textContent = value;
    else setAttribute(node, name, value);
  }
  node.append(...children);
  return node;
}

/** Creates an element of a drawing. */
export function svg(name, attributes = {}, text = '') {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  node.textContent = text;
  return node;
}

/** Creates a button. */
export const button = (text, onclick) => element('button', { type: 'button', text, onclick });

/** Creates a fold that is closed at first. */
export const folded = (title, ...content) =>
  element('details', {}, element('summary', { text: title }), ...content);

/** Sets an attribute; null and false remove it. */
export function setAttribute(node, name, value) {
  if (value === null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? '' : value);
}

/** Dims the drawings of a part whose numbers are out of date, and disables saving and copying them. */
export function setStale(root, isStale) {
  root.classList.toggle('stale', isStale);
  for (const button of root.querySelectorAll('.downloads button, .curl button')) {
    button.disabled = isStale;
  }
}

/** Replaces text only where it differs, so that live regions do not repeat themselves. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Returns the parts of a token; the mark at the start of a word has a muted colour. */
export function tokenParts(name) {
  const [mark, rest] = splitMark(name);
  return mark ? [element('span', { class: 'mark', text: mark }), rest] : [rest];
}

/**
 * Shows a group of radio buttons as one control. They are native, so that the keyboard works.
 * @param {HTMLElement} group A fieldset; the elements after its legend are replaced.
 * @param {string} name
 * @param {Array<{value: string, label: string, title?: string}>} options
 * @param {string} chosen
 * @param {function(string): void} choose
 * @param {string} kind The class of a choice.
 */
export function renderRadios(group, name, options, chosen, choose, kind = 'option') {
  const key = JSON.stringify(options);
  if (group.dataset.options !== key) {
    group.dataset.options = key;
    const items = options.map((option) => radio(name, option, choose, kind));
    group.replaceChildren(...group.querySelectorAll('legend'), ...items);
  }
  for (const input of group.querySelectorAll('input')) input.checked = input.value === chosen;
}

/**
 * @param {string} name
 * @param {{value: string, label: string, title?: string}} option
 * @param {function(string): void} choose
 * @param {string} kind
 */
function radio(name, { value, label, title }, choose, kind) {
  const input = element('input', { type: 'radio', name, value, onchange: () => choose(value) });
  return element('label', { class: kind, title: title ?? null }, input, element('span', {}, ...tokenParts(label)));
}

/**
 * Fills a menu with [value, name] and chooses one of them.
 * @param {HTMLSelectElement} menu
 * @param {string[][]} entries
 * @param {string} chosen
 */
export function fillMenu(menu, entries, chosen) {
  const key = JSON.stringify(entries);
  if (menu.dataset.entries !== key) {
    menu.dataset.entries = key;
    menu.replaceChildren(
      ...entries.map(([value, name]) => element('option', { value, text: name })),
    );
  }
  menu.value = chosen;
}
