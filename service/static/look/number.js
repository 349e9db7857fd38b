// The number that is pinned: how it comes about, down to the computation in one head.

import { Latest, post } from '../common/api.js';
import { byId, element, setText } from '../common/dom.js';
import { withTerms } from '../common/glossary.js';
import { speaker } from '../common/strings.js';
import { decimal } from '../common/text.js';
import { number } from '../strings/number.js';
import { partsOf } from './parts.js';

const say = speaker(number);

/** The panel below the map that lists the parts of the pinned number. */
export class NumberPanel {
  #latest = new Latest();
  #asked = { key: null, reply: null };
  #wantsFocus = false;

  /**
   * @param {Object} parts
   * @param {Store} parts.store
   * @param {Notice} parts.notice
   * @param {function(): void} parts.closed Called when the reader unpins the number.
   */
  constructor(parts) {
    Object.assign(this, parts, { root: byId('number') });
    byId('unpin').addEventListener('click', () => this.closed());
  }

  /** Makes the next number that is shown take the focus. */
  wantFocus() {
    this.#wantsFocus = true;
  }

  /** Hides the panel. */
  hide() {
    this.#latest.cancel();
    this.root.hidden = true;
  }

  /**
   * Shows the parts of a number.
   * @param {Cell} cell
   */
  async show(cell) {
    const { from, to, value } = cell;
    setText(byId('number-title'), say('title', { from, to, number: decimal(value, 4) }));
    this.root.hidden = false;
    try {
      const found = await this.#latest.run((signal) =>
        partsOf(cell, (body) => this.#ask(body, signal)),
      );
      if (found === undefined) return;
      this.notice.hide();
      this.#render(found);
    } catch (error) {
      this.#render({ words: [], parts: [] });
      this.notice.show(error, () => this.show(cell));
    }
    this.#reveal();
  }

  /** Requests the numbers of the parts, once for all cells of a map. */
  async #ask(body, signal) {
    const key = JSON.stringify(body);
    if (this.#asked.key !== key) {
      this.#asked = { key, reply: await post('attention', body, signal) };
    }
    return this.#asked.reply.items[0];
  }

  #reveal() {
    if (!this.#wantsFocus) return;
    this.#wantsFocus = false;
    byId('number-title').focus({ preventScroll: true });
    const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.root.scrollIntoView({ block: 'nearest', behavior: isCalm ? 'auto' : 'smooth' });
  }

  /** @param {Made} made */
  #render({ words, parts, columns = [], total = [] }) {
    byId('number-words').replaceChildren(...words.map((text) => element('p', {}, ...withTerms(text))));
    const table = byId('number-parts');
    table.hidden = parts.length === 0;
    const scale = Math.max(1e-9, ...parts.map(({ value }) => value));
    table.tHead.replaceChildren(headRow(columns));
    table.tBodies[0].replaceChildren(...parts.map((part) => this.#row(part, scale)));
    table.tFoot.replaceChildren(...total.map(([label, value]) => footRow(label, value)));
  }

  #row({ label, value, more = null, change }, scale) {
    const open = element('button', {
      type: 'button',
      text: label,
      onclick: () => this.store.set(change),
    });
    const filled = element('i');
    filled.style.setProperty('--share', value / scale);
    return element(
      'tr',
      {},
      element('th', { scope: 'row' }, open),
      element('td', { class: 'part-bar', 'aria-hidden': 'true' }, element('span', {}, filled)),
      element('td', { text: decimal(value, 4) }),
      ...(more === null ? [] : [element('td', { text: decimal(more, 4) })]),
    );
  }
}

function headRow([label, ...numbers]) {
  const heads = numbers.map((text) => element('th', { scope: 'col', text }));
  return element(
    'tr',
    {},
    element('th', { scope: 'col', text: label ?? '' }),
    element('td', { 'aria-hidden': 'true' }),
    ...heads,
  );
}

function footRow(label, value) {
  return element(
    'tr',
    {},
    element('th', { scope: 'row', text: label }),
    element('td', { 'aria-hidden': 'true' }),
    element('td', { text: decimal(value, 4) }),
  );
}
