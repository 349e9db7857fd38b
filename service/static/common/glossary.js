// Terms that explain themselves: a button in the text opens one sentence where it stands.

import { glossary } from '../strings/glossary.js';
import { byId, element } from './dom.js';
import { speaker } from './strings.js';

const say = speaker(glossary);

const MARGIN = 8; // Pixels between the meaning and the edges of the window.
const GAP = 6; // Pixels above the meaning.

/** The terms of strings/glossary.js. */
export const TERMS = Object.freeze([
  ...['layer', 'head', 'token', 'mark', 'cls', 'sep', 'end', 'rollout', 'valueNorms'],
  ...['query', 'key', 'value', 'root', 'softmax', 'output', 'entropy', 'shortlist'],
  ...['cosine', 'pooling', 'encoder', 'decoder', 'vector', 'training'],
]);

/**
 * A meaning, and the button that has opened it.
 * @typedef {{node: HTMLElement, opener: HTMLElement|null}} Meaning
 */

/** @type {Object<string, Meaning>} */
const meanings = {};

/**
 * Creates a button for a term; it opens and closes the meaning of the term.
 * @param {string} name One of TERMS.
 * @param {string} [label] Text of the button; by default the term itself.
 * @returns {HTMLElement}
 */
export function term(name, label = say(`${name}_term`)) {
  meanings[name] ??= makeMeaning(name);
  const meaning = meanings[name];
  const { id } = meaning.node;
  const button = element('button', {
    type: 'button',
    class: 'term',
    text: label,
    'aria-expanded': 'false',
    'aria-describedby': id,
    popovertarget: id,
  });
  button.addEventListener('click', () => {
    meaning.opener?.setAttribute('aria-expanded', 'false');
    meaning.opener = button;
  });
  return button;
}

/** Creates the meaning of a term at the end of the page; the browser shows it above all else. */
function makeMeaning(name) {
  const node = element('p', { class: 'meaning', id: `meaning-${name}`, popover: 'auto' });
  node.textContent = say(name);
  /** @type {Meaning} */
  const meaning = { node, opener: null };
  const growth = new ResizeObserver(() => place(meaning)); // Content above the meaning may grow.
  node.addEventListener('toggle', (event) => {
    const isOpen = /** @type {ToggleEvent} */ (event).newState === 'open';
    meaning.opener?.setAttribute('aria-expanded', String(isOpen));
    if (isOpen) {
      place(meaning);
      node.scrollIntoView({ block: 'nearest' });
      growth.observe(document.body);
    } else growth.disconnect();
  });
  byId('main').append(node);
  return meaning;
}

/**
 * Puts a meaning below the line of its term.
 * @param {Meaning} meaning
 */
function place({ node, opener }) {
  if (!opener?.isConnected) return;
  const box = opener.getBoundingClientRect();
  const room = document.documentElement.clientWidth - node.offsetWidth - MARGIN;
  const left = Math.max(MARGIN, Math.min(box.left, room));
  node.style.setProperty('left', `${left + scrollX}px`);
  node.style.setProperty('top', `${box.bottom + GAP + scrollY}px`);
}

/** Reports whether a meaning is open; Escape then closes it and does nothing else. */
export const isMeaningOpen = () => document.querySelector('.meaning:popover-open') !== null;

/**
 * Returns the nodes of a text in which `[[name]]` or `[[name|label]]` stands for a term.
 * @param {string} text
 * @returns {Array<string|HTMLElement>}
 */
export function withTerms(text) {
  return text.split(/(\[\[[^\]]+\]\])/).map((part) => {
    const found = /^\[\[(\w+)(?:\|(.+))?\]\]$/.exec(part);
    return found ? term(found[1], found[2]) : part;
  });
}
