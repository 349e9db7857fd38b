// Other translations of a sentence. The reader can choose one in place of the model's own.

import { Latest, post } from '../common/api.js';
import { byId, element, setText } from '../common/dom.js';
import { UNPINNED, chooseFor, chosenFor } from '../common/state.js';
import { speaker } from '../common/strings.js';
import { cutOut } from '../common/text.js';
import { translate } from '../strings/translate.js';

const say = speaker(translate);
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
      if (view.others !== before.others || view.sentence !== before.sentence) this.#load();
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

  /** The sentence that the reader looks at: its number, its text and the model's own translation. */
  get #sentence() {
    const { text, own, sentences } = /** @type {Translation} */ (this.#translation);
    const at = Math.max(0, Math.min(this.store.view.sentence, sentences.length - 1));
    if (sentences.length === 0) return { at, text, own };
    const { source_words: read, target_words: written } = sentences[at];
    return { at, text: cutOut(text, read), own: cutOut(own, written) };
  }

  #load() {
    this.#latest.cancel();
    this.#found = [];
    this.notice.hide();
    this.#render();
    if (!this.store.view.others || this.#translation === null) return;
    const { source, target } = this.#translation;
    const body = { q: this.#sentence.text, source, target, alternatives: NUM_OTHERS };
    this.notice.guard(this.#latest, (signal) => post('translate', body, signal), (reply) => {
      this.#found = [reply.translatedText, ...(reply.alternatives ?? [])];
      this.#render();
    });
  }

  #render() {
    const { view } = this.store;
    this.toggle.setAttribute('aria-expanded', String(view.others));
    this.root.hidden = !view.others || this.#translation === null;
    byId('others-of').hidden = this.root.hidden || (this.#translation?.sentences.length ?? 0) < 2;
    if (this.#translation === null || !view.others) return;
    const { at, text, own } = this.#sentence;
    setText(byId('others-of'), say('othersOf', { sentence: text }));
    const chosen = chosenFor(view, at) ?? own;
    this.#found = [...new Set([own, ...this.#found, chosen])]; // The list keeps earlier choices.
    this.#list(this.#found, this.#translation.target);
    for (const button of this.root.querySelectorAll('button'))
      button.setAttribute('aria-pressed', String(button.textContent === chosen));
  }

  /** Redraws the list only if it differs, so that a pressed button keeps the focus. */
  #list(texts, lang) {
    const key = JSON.stringify([texts, lang]);
    if (this.root.dataset.texts === key) return;
    this.root.dataset.texts = key;
    const items = texts.map((text) => element('li', { lang, dir: 'auto' }, this.#button(text, texts[0])));
    this.root.replaceChildren(...items);
  }

  #button(text, own) {
    const choose = () => {
      const { view } = this.store;
      const wanted = chooseFor(view, this.#sentence.at, text === own ? null : text);
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
