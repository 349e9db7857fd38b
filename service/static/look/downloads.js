// The buttons that save the heat map and its numbers.

import { byId } from '../common/dom.js';
import { npzFile, pngFile, save, svgFile } from './export.js';

/** Saves the heat map as PNG or SVG, and its numbers as npz. */
export class Downloads {
  #offered = null;

  /** @param {Notice} notice */
  constructor(notice) {
    this.notice = notice;
    this.#button('png', ({ figure, caption }) => pngFile(figure, caption()));
    this.#button('svg', ({ figure, caption }) => svgFile(figure, caption()));
    this.#button('npz', ({ body }) => npzFile(body));
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

  #button(kind, make) {
    byId(kind).addEventListener('click', () => this.#save(kind, make));
  }

  async #save(kind, make) {
    try {
      save(await make(this.#offered), `${this.#offered.name}.${kind}`);
      this.notice.hide();
    } catch (error) {
      this.notice.show(error, () => this.#save(kind, make));
    }
  }
}
