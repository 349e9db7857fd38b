// The counter of characters, and the limit that a text in the field may not exceed.

import { makeCopy } from '../common/copy.js';
import { byId, element, setText } from '../common/dom.js';
import { pageLanguage, speaker } from '../common/strings.js';
import { translate } from '../strings/translate.js';

const say = speaker(translate);

/** Above this number of characters browsers take too long to lay out a text in two columns. */
const MAX_CHARACTERS = 50_000;

/** Detail of the event after an insertion that was cut. */
export const PASTED = 'pasted';

/** Counts code points, as the server does. */
export function countOf(text) {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** Returns the first `count` code points of a text. */
export function firstOf(text, count) {
  if (text.length <= count) return text;
  let end = 0;
  for (let left = count; left > 0 && end < text.length; left -= 1) {
    end += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
  }
  return text.slice(0, end);
}

const written = (number) => number.toLocaleString(pageLanguage());

/** Keeps a text field below the limit. The reader can copy the characters that were left out. */
export class TextLimit {
  #rest = '';

  /**
   * @param {HTMLTextAreaElement} field
   * @param {number} limit The server's limit; -1 if it has none.
   */
  constructor(field, limit) {
    this.field = field;
    this.limit = limit > 0 ? Math.min(limit, MAX_CHARACTERS) : MAX_CHARACTERS;
    this.counter = byId('counter');
    this.note = byId('limit-note');
    this.words = element('span');
    const copy = element('button', { type: 'button', text: say('copyRest') });
    this.note.replaceChildren(this.words, ' ', copy);
    makeCopy(copy, () => this.#rest);
    field.addEventListener('beforeinput', (event) => this.#guard(event));
    this.render();
  }

  /** Shortens the field if the browser let more in; returns its text. */
  shorten() {
    const text = this.field.value;
    if (firstOf(text, this.limit) !== text) this.field.value = this.taken(text);
    return this.field.value;
  }

  /** Returns a text as it may stand in the field; tells the reader if it was too long. */
  taken(text) {
    const kept = firstOf(text, this.limit);
    this.#tell(text.slice(kept.length));
    return kept;
  }

  /** Shows the number of characters in the field. */
  render() {
    const count = written(countOf(this.field.value));
    setText(this.counter, say('counter', { count, limit: written(this.limit) }));
  }

  /** Shortens an insertion before the browser lays it out, which can take very long. */
  #guard(event) {
    const inserted = event.data ?? event.dataTransfer?.getData('text/plain') ?? '';
    if (!inserted || event.isComposing) return;
    const { value, selectionStart: start, selectionEnd: end } = this.field;
    const room = this.limit - countOf(value) + countOf(value.slice(start, end));
    const kept = firstOf(inserted, Math.max(0, room));
    this.#tell(inserted.slice(kept.length));
    if (kept === inserted) return;
    event.preventDefault();
    this.field.setRangeText(kept, start, end, 'end');
    this.field.dispatchEvent(new CustomEvent('input', { bubbles: true, detail: PASTED }));
  }

  #tell(rest) {
    this.#rest = rest;
    this.note.hidden = rest === '';
    if (rest === '') return;
    const values = { limit: written(this.limit), count: written(countOf(rest)) };
    setText(this.words, say('tooLong', values));
  }
}
