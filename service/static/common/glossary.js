// Terms that explain themselves: a button in the text opens one sentence where it stands.

import { glossary } from '../strings/glossary.js';
import { element } from './dom.js';
import { speaker } from './strings.js';

const say = speaker(glossary);

const MARGIN = 8; // Pixels between the meaning and the edges of the window.

/** The terms of strings/glossary.js. */
export const TERMS = Object.freeze([
  ...['layer', 'head', 'token', 'mark', 'cls', 'sep', 'end', 'rollout', 'valueNorms'],
  ...['query', 'key', 'value', 'root', 'softmax', 'output', 'entropy', 'shortlist'],
  ...['cosine', 'pooling', 'encoder', 'decoder', 'vector', 'training'],
]);

/** @type {Object<string, {node: HTMLElement, opener: HTMLElement|null}>} */
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
  /** @type {{node: HTMLElement, opener: HTMLElement|null}} */
  const meaning = { node, opener: null };
  node.addEventListener('toggle', (event) => {
    const isOpen = /** @type {ToggleEvent} */ (event).newState === 'open';
    meaning.opener?.setAttribute('aria-expanded', String(isOpen));
    if (isOpen && meaning.opener) place(node, meaning.opener);
  });
  document.body.append(node);
  return meaning;
}

/** Puts a meaning below the paragraph of its term if the window has room, else below the term. */
function place(meaning, button) {
  const box = button.getBoundingClientRect();
  const end = (button.closest('p, li') ?? button).getBoundingClientRect().bottom;
  const bottom = end + 4 + meaning.offsetHeight <= innerHeight ? end : box.bottom;
  const room = document.documentElement.clientWidth - meaning.offsetWidth - MARGIN;
  const left = Math.max(MARGIN, Math.min(box.left, room));
  meaning.style.setProperty('left', `${left + scrollX}px`);
  meaning.style.setProperty('top', `${bottom + 4 + scrollY}px`);
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
