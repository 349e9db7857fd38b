// Creates and changes elements without a framework. No function parses text as HTML.

import { splitMark } from './text.js';

/** Returns the element with an id. */
export const byId = (id) => document.getElementById(id);

/**
 * Creates an element with attributes and children.
 * @param {string} tag
 * @param {Object} attributes Attributes by name. `on…` adds a listener; `class` and `text` set the
 *     class and the text. False and null leave an attribute out; true gives it no value.
 * @param {...(Node|string)} children
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

/** Sets an attribute; null and false remove it. */
export function setAttribute(node, name, value) {
  if (value === null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? '' : value);
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
 */
export function renderRadios(group, name, options, chosen, choose) {
  const key = JSON.stringify(options);
  if (group.dataset.options !== key) {
    group.dataset.options = key;
    const items = options.map((option) => radio(name, option, choose));
    group.replaceChildren(...group.querySelectorAll('legend'), ...items);
  }
  for (const input of group.querySelectorAll('input')) input.checked = input.value === chosen;
}

function radio(name, { value, label, title = null }, choose) {
  const input = element('input', { type: 'radio', name, value, onchange: () => choose(value) });
  return element('label', { class: 'option', title }, input, element('span', { text: label }));
}
