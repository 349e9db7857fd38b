// The buttons that save the heat map and its numbers.

import { postForFile } from '../common/api.js';
import { byId } from '../common/dom.js';
import { save, saveButtons } from '../common/export.js';
import { captioned } from '../common/picture.js';

/** Saves the heat map as PNG or SVG, and its numbers as npz. */
export class Downloads {
  #offered = null;

  /** @param {Notice} notice */
  constructor(notice) {
    this.notice = notice;
    const draw = ({ figure, caption }) => captioned(figure, caption());
    byId('download-notice').before(saveButtons(() => this.#offered.name, () => draw(this.#offered)));
    byId('npz').addEventListener('click', () => this.#saveNumbers());
  }

  /**
   * Sets the figure and the request that the buttons save.
   * @param {Figure} figure
   * @param {function(): {above: string[], below: string[]}} caption Returns the lines at saving.
   * @param {Object} view
   * @param {Object} body Body of the request for the figure.
   */
  offer(figure, caption, view, body) {
    const head = typeof view.head === 'number' ? `-head${view.head + 1}` : '';
    const layer = typeof view.layer === 'number' ? `layer${view.layer + 1}` : view.layer;
    this.#offered = { figure, caption, body, name: `regard-${view.kind}-${layer}${head}` };
  }

  /** Saves the exact numbers in NumPy's format. */
  async #saveNumbers() {
    const { body: { decimals: _, ...body }, name } = this.#offered;
    try {
      save(await postForFile('attention', { ...body, format: 'npz' }), `${name}.npz`);
      this.notice.hide();
    } catch (error) {
      this.notice.show(error, () => this.#saveNumbers());
    }
  }
}
