// The view of the page, as one object and as the fragment of a link. A browser does not send the
// fragment to the server.

/**
 * file: A file that waits to be translated; no link has it.
 * way: translate, documents or understand: the part of the page that is shown.
 * task: translate, or embed to compare sentences.
 * model: The name of the model that embeds; null for the default one.
 * text, source, target: The text to translate and its languages; source `auto` is detected.
 * wanted: The translations that the reader chose, one for each sentence, empty for the model's own;
 *     null if all are the model's own.
 * others: Whether other translations are shown.
 * look: Whether the attention of a translation is unfolded.
 * sentence: The number of the sentence to look into, from 0.
 * kind: cross, encoder or decoder.
 * layer: A number from 0, `all` or `rollout`; null for the last.
 * head: A number from 0, or `mean`; null for the mean, or with a layer of null for the head that
 *     aligns words.
 * level: word or token.
 * norm: weights or value_norms.
 * query: The pinned token that attends, counted from 0; null for none.
 * key: The pinned token that it attends to, counted from 0; null for none.
 * named: The word whose probability is compared; empty for none.
 * search: Whether the search for a head is open.
 * vectors: Whether the computation shows q, k and v.
 * swapped, turned: Whether the kids and the lions have changed places in the sentence that opens
 *     Understand, and whether that sentence is in the active voice.
 * from: The number of the word of that sentence whose attention is shown; null for `they`.
 * lesson, token: The sentence of the story, and the number of the token that it follows; null for
 *     the story's own choice.
 * step: The step of the story; null before its start.
 * off: The heads and words of the story that are switched off, separated by spaces; null for none.
 * uniform: Whether the heads in `off` look at all words equally, and are not switched off.
 * toy: The numbers of the toy's matrix, row by row, separated by spaces; null for the first ones.
 */
/** @type {Readonly<View>} */
export const DEFAULTS = Object.freeze({
  file: null,
  way: 'translate',
  task: 'translate',
  model: null,
  text: '',
  source: 'auto',
  target: '',
  wanted: null,
  others: false,
  look: false,
  sentence: 0,
  kind: 'cross',
  layer: null,
  head: null,
  level: 'word',
  norm: 'weights',
  query: null,
  key: null,
  named: '',
  search: false,
  vectors: false,
  swapped: false,
  turned: false,
  from: null,
  lesson: null,
  token: null,
  step: null,
  off: null,
  uniform: false,
  toy: null,
});

/** The change that pins no word. */
export const UNPINNED = Object.freeze({ query: null, key: null });

/** The change that comes with another text: its first sentence, and the model's own translation. */
export const FIRST = Object.freeze({ sentence: 0, wanted: null, ...UNPINNED });

const SEPARATOR = '\u001e'; // The server leaves out control characters, so no translation has it.

/** Returns the translation that the reader chose for a sentence; null for the model's own. */
export const chosenFor = ({ wanted }, sentence) => wanted?.split(SEPARATOR)[sentence] || null;

/** Returns `wanted` with another choice for a sentence; null for the model's own. */
export function chooseFor({ wanted }, sentence, text) {
  const texts = wanted?.split(SEPARATOR) ?? [];
  texts[sentence] = text;
  return texts.some(Boolean) ? texts.join(SEPARATOR) : null;
}

const isCode = (value) => (/^[A-Za-z0-9-]{1,35}$/.test(value) ? value : undefined);
const isName = (value) => (/^[\w.:/-]{1,100}$/.test(value) ? value : undefined);
const isText = (value) => value;
const isFlag = (value) => value === 'yes';
const isNumber = (value) => (/^\d{1,4}$/.test(value) ? Number(value) : undefined);
const isWord = (value) => (/^[a-z]{1,20}$/.test(value) ? value : undefined);
const areParts = (value) => (/^[\w. ]{1,2000}$/.test(value) ? value : undefined);
const areNumbers = (value) => (/^[-\d. ]{1,200}$/.test(value) ? value : undefined);
const oneOf =
  (...words) =>
  (value) =>
    words.includes(value) ? value : undefined;
const isNumberOr =
  (...words) =>
  (value) =>
    isNumber(value) ?? oneOf(...words)(value);

// Functions that read the values of a link; they leave out unknown values.
const READERS = {
  way: oneOf('translate', 'documents', 'understand'),
  task: oneOf('translate', 'embed'),
  model: isName,
  text: isText,
  source: isCode,
  target: isCode,
  wanted: isText,
  others: isFlag,
  look: isFlag,
  sentence: isNumber,
  kind: oneOf('cross', 'encoder', 'decoder'),
  layer: isNumberOr('all', 'rollout'),
  head: isNumberOr('mean'),
  level: oneOf('word', 'token'),
  norm: oneOf('weights', 'value_norms'),
  query: isNumber,
  key: isNumber,
  named: isText,
  search: isFlag,
  vectors: isFlag,
  swapped: isFlag,
  turned: isFlag,
  from: isNumber,
  lesson: isText,
  token: isNumber,
  step: isWord,
  off: areParts,
  uniform: isFlag,
  toy: areNumbers,
};

/** Returns a view as the fragment of a link, without the `#` and without default values. */
export function toFragment(view) {
  const parameters = new URLSearchParams();
  for (const name of Object.keys(READERS)) {
    const value = view[name] === true ? 'yes' : view[name];
    if (view[name] !== DEFAULTS[name]) parameters.set(name, value);
  }
  return parameters.toString();
}

/** Returns the view that a fragment describes; null if it describes none. */
export function fromFragment(fragment) {
  const parameters = new URLSearchParams(fragment.replace(/^#/, ''));
  const view = { ...DEFAULTS };
  let isView = false;
  for (const [name, read] of Object.entries(READERS)) {
    const value = parameters.has(name) ? read(parameters.get(name)) : undefined;
    if (value === undefined) continue;
    view[name] = value;
    isView = true;
  }
  return isView ? view : null;
}

/** Holds the view of the page, and calls its listeners after every change. */
export class Store {
  #listeners = [];

  constructor(view) {
    this.view = view;
  }

  /** Calls a listener with the view and the one before, after each change. */
  subscribe(listener) {
    this.#listeners.push(listener);
  }

  /** Changes some values of the view. */
  set(change) {
    const before = this.view;
    const isSame = Object.entries(change).every(([name, value]) => before[name] === value);
    if (isSame) return;
    this.view = { ...before, ...change };
    for (const listener of this.#listeners) listener(this.view, before);
  }
}
