// The fold around the attention of a translation. A translator who does not need it leaves it
// closed, and the page then requests no attention.

import { byId } from './dom.js';
import { DEFAULTS } from './state.js';
import { keep, kept } from './storage.js';

const STORED = 'regard-look';

/** The choices that show that a link is about attention. */
const ABOUT = ['kind', 'layer', 'head', 'level', 'norm', 'query', 'key', 'named', 'search', 'vectors'];

/** Reports whether a view opens the fold: by its own choices, or by what the reader chose before. */
export function isUnfolded(view) {
  const isAbout = ABOUT.some((name) => view[name] !== DEFAULTS[name]);
  return view.look || isAbout || kept(STORED) === 'open';
}

/** Passes each translation on, but only while the fold is open. */
export class Fold {
  /** @type {Translation|EmbeddedText|null} */
  #translation = null;
  /** @type {Translation|EmbeddedText|null} */
  #passed = null;

  /**
   * @param {Store} store
   * @param {function(Translation|EmbeddedText|null): void} follow Shows the attention of a translation; null shows
   *     none.
   */
  constructor(store, follow) {
    this.store = store;
    this.pass = follow;
    this.root = byId('look-fold');
    this.root.addEventListener('toggle', () => this.#toggle());
    store.subscribe(() => this.render());
  }

  /** Takes a new translation, or a text to embed. */
  follow(translation) {
    this.#translation = translation;
    this.#passed = this.isOpen ? translation : null;
    this.pass(this.#passed);
  }

  /** Whether attention is shown. A text to embed has nothing else to show. */
  get isOpen() {
    const { look, task } = this.store.view;
    return look || task === 'embed';
  }

  /** Opens or closes the fold as the view says. */
  render() {
    this.root.open = this.isOpen;
    this.root.dataset.task = this.store.view.task;
    const shown = this.isOpen ? this.#translation : null;
    if (shown === this.#passed) return;
    this.#passed = shown;
    this.pass(shown);
  }

  /** Notes that the reader has opened or closed the fold. */
  #toggle() {
    const isOpen = this.root.open;
    if (isOpen === this.isOpen) return;
    keep(STORED, isOpen ? 'open' : 'closed');
    this.store.set({ look: isOpen });
  }
}
