// Other translations of the same text. The reader can choose one in place of the model's own.

import { Latest, post } from '../common/api.js';
import { byId, element } from '../common/dom.js';
import { UNPINNED } from '../common/state.js';

const NUM_OTHERS = 3;
const WORD = /([\p{L}\p{N}]+)/u;

/** The list of other translations; empty until it is unfolded. */
export class OtherTranslations {
  #latest = new Latest();
  /** @type {Translation|null} */
  #translation = null;
  /** @type {string[]} */
  #found = [];

  /**
   * @param {Store} store
   * @param {Notice} notice
   */
  constructor(store, notice) {
    this.store = store;
    this.notice = notice;
    this.root = byId('alternatives');
    this.toggle = byId('others');
    this.toggle.addEventListener('click', () => store.set({ others: !store.view.others }));
    store.subscribe((view, before) => {
      if (view.others !== before.others) this.#load();
      else if (view.wanted !== before.wanted) this.#render();
    });
  }

  /**
   * Shows the alternatives of a new translation; null shows none.
   * @param {Translation|null} translation
   */
  follow(translation) {
    const isKnown = translation === this.#translation;
    this.#translation = translation;
    if (isKnown) this.#render();
    else this.#load();
  }

  async #load() {
    this.#latest.cancel();
    this.#found = [];
    this.notice.hide();
    this.#render();
    if (!this.store.view.others || this.#translation === null) return;
    const { text, source, target } = this.#translation;
    const body = { q: text, source, target, alternatives: NUM_OTHERS };
    try {
      const reply = await this.#latest.run((signal) => post('translate', body, signal));
      if (reply === undefined) return;
      this.#found = [reply.translatedText, ...(reply.alternatives ?? [])];
      this.#render();
    } catch (error) {
      this.notice.show(/** @type {ApiError} */ (error), () => this.#load());
    }
  }

  #render() {
    const { others, wanted } = this.store.view;
    this.toggle.setAttribute('aria-expanded', String(others));
    const translation = this.#translation;
    this.root.hidden = !others || translation === null;
    if (!others || translation === null) return;
    const { own, target, sentences } = translation;
    const texts = [...new Set([own, ...this.#found, wanted ?? own])];
    this.#list(texts, target, sentences.length > 1);
    for (const button of this.root.querySelectorAll('button')) {
      button.setAttribute('aria-pressed', String(button.textContent === (wanted ?? own)));
    }
  }

  /** Redraws the list only if it differs, so that a pressed button keeps the focus. */
  #list(texts, target, areLong) {
    const key = JSON.stringify([texts, target, areLong]);
    if (this.root.dataset.texts === key) return;
    this.root.dataset.texts = key;
    const items = texts.map((text) => {
      const content = areLong ? text : this.#button(text, texts[0]);
      return element('li', { lang: target, dir: 'auto' }, content);
    });
    this.root.replaceChildren(...items);
  }

  #button(text, own) {
    const choose = () => {
      const wanted = text === this.#translation?.own ? null : text;
      this.store.set({ wanted, ...UNPINNED });
    };
    return element('button', { type: 'button', onclick: choose }, ...marked(text, own));
  }
}

/** Returns the parts of a text; words that the model's own translation does not have are marked. */
function marked(text, own) {
  const words = new Set(own.split(WORD));
  const mark = (part, index) => (index % 2 === 0 || words.has(part) ? part : element('mark', { text: part }));
  return text.split(WORD).map(mark);
}
