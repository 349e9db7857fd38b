// Small heat maps of all heads of a layer and their mean. One of them is shown large.

import { element } from '../common/dom.js';
import { palette, rampColour } from '../common/palette.js';
import { speaker } from '../common/strings.js';
import { paint } from '../common/strip.js';
import { look } from '../strings/look.js';

const say = speaker(look);

/** Radio buttons with a small heat map each. */
export class Heads {
  #tables = null;
  #drawn = null;

  /**
   * @param {HTMLElement} root A fieldset.
   * @param {function(number|string): void} choose
   */
  constructor(root, choose) {
    Object.assign(this, { root, choose, list: root.querySelector('div') });
    document.addEventListener('themechange', () => this.#tables && this.#paint());
  }

  /**
   * Shows the heads of a layer; hides itself if the view merges them.
   * @param {Array<{name: number|string, values: number[][]}>} maps
   * @param {number} max Value of the darkest colour.
   * @param {number|string} chosen
   */
  show(maps, max, chosen) {
    this.root.hidden = maps.length < 2;
    this.#tables = { maps, max };
    const names = maps.map(({ name }) => name).join();
    if (this.#drawn !== names) {
      this.#drawn = names;
      this.list.replaceChildren(...maps.map(({ name }) => this.#option(name)));
    }
    for (const input of this.list.querySelectorAll('input')) {
      input.checked = input.value === String(chosen);
    }
    this.#paint();
  }

  #option(name) {
    const value = String(name);
    const label = name === 'mean' ? say('mean') : say('head', { head: name + 1 });
    const input = element('input', { type: 'radio', name: 'head', value });
    input.addEventListener('change', () => this.choose(name));
    return element('label', { class: 'head' }, input, element('canvas', { 'aria-hidden': 'true' }), label);
  }

  #paint() {
    const colours = palette();
    const canvases = this.list.querySelectorAll('canvas');
    const { maps, max } = this.#tables;
    maps.forEach(({ values }, index) => {
      paint(canvases[index], values, (value) => rampColour(colours, value / max));
    });
  }
}
