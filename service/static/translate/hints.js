// Sentences below the field that say what the languages of a text mean for its translation.

import { byId, element } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { listed } from '../common/text.js';
import { translate } from '../strings/translate.js';

const say = speaker(translate);

/** Shows one hint at a time, with a button that offers a way to continue. */
export class Hints {
  /** @param {Languages} languages */
  constructor(languages) {
    this.languages = languages;
    this.root = byId('same');
  }

  /** Hides the hint. */
  hide() {
    this.root.hidden = true;
  }

  /**
   * Says that a text is in the target language.
   * @param {string} code
   * @param {string|null} other Another target, if there is one.
   * @param {function(): void} choose Chooses the other target.
   */
  already(code, other, choose) {
    const words = say('already', { language: this.languages.name(code) });
    if (other === null) this.#show(words);
    else this.#show(words, say('translateTo', { language: this.languages.name(other) }), choose);
  }

  /** Says that the target changed, because the text is in the target language. */
  flipped(code, target) {
    const [language, other] = [this.languages.name(code), this.languages.name(target)];
    this.#show(say('flipped', { language, target: other }));
  }

  /**
   * Says that a text is in a language that the server does not translate.
   * @param {string} code The language of the text.
   * @param {string} guess The served language that is nearest.
   * @param {function(): void} choose Translates the text as if it were in that language.
   */
  unserved(code, guess, choose) {
    const words = say('unserved', { language: this.languages.name(code), served: this.#served() });
    this.#show(words, say('translateAs', { language: this.languages.name(guess) }), choose);
  }

  /** Says that a text is in none of the served languages. */
  unknown() {
    this.#show(say('noneServed', { served: this.#served() }));
  }

  /** Says that a text has no words. */
  noWords() {
    this.#show(say('noWords'));
  }

  /** Says that a link asks for languages that the server does not translate. */
  link({ source, target }) {
    const from = source === 'auto' ? say('anyLanguage') : this.languages.name(source);
    this.#show(say('linkUnserved', { source: from, target: this.languages.name(target) }));
  }

  #served() {
    return listed(this.languages.list.map(({ code }) => this.languages.name(code)));
  }

  #show(words, label = '', act = () => {}) {
    const button = element('button', { type: 'button', text: label, onclick: act });
    this.root.replaceChildren(`${words} `, ...(label ? [button] : []));
    this.root.hidden = false;
  }
}
