// Sentences below the field that say what the languages of a text mean for its translation.

import { byId, element } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { listed } from '../common/text.js';
import { translate } from '../strings/translate.js';

const say = speaker(translate);

/** Shows one hint at a time, with a button that offers a way to continue. */
export class Hints {
  root = byId('same');

  /** @param {Languages} languages */
  constructor(languages) {
    this.languages = languages;
  }

  /** Hides the hint. */
  hide() {
    this.root.hidden = true;
  }

  /**
   * Shows a text of the table.
   * @param {string} name
   * @param {Object<string, string>} codes Languages in the text, by the names of their places.
   * @param {{name: string, code: string, act: function(): void}|null} way A way to continue, in a language.
   */
  show(name, codes = {}, way = null) {
    const names = Object.entries(codes).map(([place, code]) => [place, this.#named(code)]);
    const served = listed(this.languages.list.map(({ code }) => this.languages.name(code)));
    const words = say(name, { served, ...Object.fromEntries(names) });
    const button = element('button', { type: 'button', onclick: way?.act ?? null });
    if (way !== null) button.textContent = say(way.name, { language: this.#named(way.code) });
    this.root.replaceChildren(`${words} `, ...(way === null ? [] : [button]));
    this.root.hidden = false;
  }

  #named(code) {
    return code === 'auto' ? say('anyLanguage') : this.languages.name(code);
  }
}
