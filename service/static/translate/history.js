// The translations that the reader has made. They stay in the browser, and no server gets them.

import { byId, element } from '../common/dom.js';
import { keep, kept } from '../common/storage.js';
import { speaker } from '../common/strings.js';
import { translate } from '../strings/translate.js';

const say = speaker(translate);
const STORED = 'regard-history';
const MAX_ENTRIES = 20;
const MAX_CHARACTERS = 2000; // Longer texts are not kept.
const SETTLED_MILLISECONDS = 2000; // A text that changes before that is not kept.

/** @typedef {{text: string, translated: string, source: string, target: string}} Entry */

/** The list of earlier translations; empty until the reader has made one. */
export class History {
  /** @type {number|undefined} */
  #timer;

  /** @param {function(Entry): void} take Shows a text again. */
  constructor(take) {
    this.take = take;
    this.root = byId('history');
    this.list = element('ol');
    const forget = () => this.#keep([]);
    this.root.append(
      element('summary', { text: say('history') }),
      this.list,
      element('p', { class: 'hint', text: say('historyHint') }),
      element('button', { type: 'button', class: 'quiet', text: say('historyClear'), onclick: forget }),
    );
    this.#render(this.#entries);
  }

  /** Keeps a translation after a pause; null, or a newer one, ends the wait. */
  follow(translation) {
    clearTimeout(this.#timer);
    if (translation === null || translation.text.length > MAX_CHARACTERS) return;
    const { text, own: translated, source, target } = translation;
    if (translated === '') return;
    this.#timer = setTimeout(() => this.#add({ text, translated, source, target }), SETTLED_MILLISECONDS);
  }

  /** @returns {Entry[]} */
  get #entries() {
    try {
      return JSON.parse(kept(STORED) || '[]');
    } catch {
      return [];
    }
  }

  /** Adds an entry; the beginnings of its text, which the reader has typed on, give way. */
  #add(entry) {
    const others = this.#entries.filter(({ text }) => !entry.text.startsWith(text.trim()));
    this.#keep([entry, ...others].slice(0, MAX_ENTRIES));
  }

  #keep(entries) {
    keep(STORED, JSON.stringify(entries));
    this.#render(entries);
  }

  #render(entries) {
    this.root.hidden = entries.length === 0;
    const items = entries.map((entry) => {
      const { text, translated, source, target } = entry;
      const onclick = () => this.take(entry);
      const button = element('button', { type: 'button', lang: source, dir: 'auto', text, onclick });
      return element('li', {}, button, element('span', { lang: target, dir: 'auto', text: translated }));
    });
    this.list.replaceChildren(...items);
  }
}
