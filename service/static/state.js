// What the reader sees, as one object and as the fragment of a link. The fragment never leaves the
// browser: servers are not told of it.

/**
 * task: translate or embed.
 * model: The name of the model that embeds; null for the usual one.
 * text, source, target: What is translated; a source of `auto` is detected.
 * wanted: A translation to look into in place of the model's own; null for its own.
 * others: Whether other translations are shown.
 * sentence: Which sentence is looked into, counted from 0.
 * kind: cross, encoder or decoder.
 * layer: A number from 0, `all` or `rollout`; null for the last.
 * head: A number from 0, or `mean`.
 * level: word or token.
 * norm: weights or value_norms.
 * query: The token whose computation is open, counted from 0; null for none.
 * vectors: Whether the computation shows q, k and v.
 */
export const DEFAULTS = Object.freeze({
  task: 'translate',
  model: null,
  text: '',
  source: 'auto',
  target: '',
  wanted: null,
  others: false,
  sentence: 0,
  kind: 'cross',
  layer: null,
  head: 'mean',
  level: 'word',
  norm: 'weights',
  query: null,
  vectors: false,
});

const isCode = (value) => (/^[A-Za-z0-9-]{1,35}$/.test(value) ? value : undefined);
const isName = (value) => (/^[\w.:/-]{1,100}$/.test(value) ? value : undefined);
const isText = (value) => value;
const isFlag = (value) => value === 'yes';
const isNumber = (value) => (/^\d{1,4}$/.test(value) ? Number(value) : undefined);
const oneOf =
  (...words) =>
  (value) =>
    words.includes(value) ? value : undefined;
const isNumberOr =
  (...words) =>
  (value) =>
    isNumber(value) ?? oneOf(...words)(value);

// Each reads a value from a link; what it does not know it leaves out.
const READERS = {
  task: oneOf('translate', 'embed'),
  model: isName,
  text: isText,
  source: isCode,
  target: isCode,
  wanted: isText,
  others: isFlag,
  sentence: isNumber,
  kind: oneOf('cross', 'encoder', 'decoder'),
  layer: isNumberOr('all', 'rollout'),
  head: isNumberOr('mean'),
  level: oneOf('word', 'token'),
  norm: oneOf('weights', 'value_norms'),
  query: isNumber,
  vectors: isFlag,
};

/** A view as the fragment of a link, without the `#`; what is as ever is left out. */
export function toFragment(view) {
  const parameters = new URLSearchParams();
  for (const name of Object.keys(READERS)) {
    const value = view[name] === true ? 'yes' : view[name];
    if (view[name] !== DEFAULTS[name]) parameters.set(name, value);
  }
  return parameters.toString();
}

/** The view that a fragment describes; null where it describes none. */
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

/** The one view of the page; whoever subscribes is told of every change. */
export class Store {
  #listeners = [];

  constructor(view) {
    this.view = view;
  }

  /** Calls a listener with the view and the one before, after each change. */
  subscribe(listener) {
    this.#listeners.push(listener);
  }

  /** Changes some of the view. */
  set(change) {
    const before = this.view;
    const isSame = Object.entries(change).every(([name, value]) => before[name] === value);
    if (isSame) return;
    this.view = { ...before, ...change };
    for (const listener of this.#listeners) listener(this.view, before);
  }
}
