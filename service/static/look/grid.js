// A grid of all heads: one row for each layer, one column for each head.

import { element } from '../common/dom.js';
import { hex, isLight, palette, rampColour } from '../common/palette.js';
import { speaker } from '../common/strings.js';
import { decimal } from '../common/text.js';
import { search } from '../strings/search.js';
import { paint } from './heads.js';

const say = speaker(search);

/**
 * The numbers of all heads.
 * @typedef {Object} AllHeads
 * @property {number[][][][]} planes One plane by layer and head.
 * @property {{row: number, column: number}|null} pair The cell to compare; null shows small maps.
 * @property {number} max Value of the darkest colour.
 * @property {{layer: number|string, head: number|string}} chosen
 */

/** A grid in which arrow keys move and Enter chooses. */
export class Grid {
  /** @type {AllHeads|null} */
  #shown = null;
  #place = { layer: 0, head: 0 };

  /**
   * @param {HTMLTableElement} root
   * @param {function(number, number): void} choose Called with a layer and a head.
   */
  constructor(root, choose) {
    this.root = root;
    this.choose = choose;
    root.addEventListener('click', ({ target }) => this.#click(/** @type {Element} */ (target)));
    root.addEventListener('keydown', (event) => this.#press(event));
    document.addEventListener('themechange', () => this.#shown && this.show(this.#shown));
  }

  /** Shows the heads. @param {AllHeads} heads */
  show(heads) {
    const hadFocus = this.root.contains(document.activeElement);
    this.#shown = heads;
    const { planes, chosen } = heads;
    if (typeof chosen.layer === 'number') this.#place.layer = chosen.layer;
    if (typeof chosen.head === 'number') this.#place.head = chosen.head;
    this.#place.layer = Math.min(this.#place.layer, planes.length - 1);
    this.#place.head = Math.min(this.#place.head, planes[0].length - 1);
    this.root.tHead?.replaceChildren(headRow(planes[0].length));
    const rows = planes.map((_, layer) => this.#row(layer));
    this.root.tBodies[0].replaceChildren(...rows);
    if (hadFocus) this.#cell(this.#place.layer, this.#place.head)?.focus();
  }

  #row(layer) {
    const { planes } = /** @type {AllHeads} */ (this.#shown);
    const name = element('th', { scope: 'row', text: `${layer + 1}`, 'aria-label': say('layer', { layer: layer + 1 }) });
    return element('tr', {}, name, ...planes[layer].map((_, head) => this.#makeCell(layer, head)));
  }

  #makeCell(layer, head) {
    const { planes, pair, max, chosen } = /** @type {AllHeads} */ (this.#shown);
    const plane = planes[layer][head];
    const isChosen = chosen.layer === layer && (chosen.head === head || chosen.head === 'mean');
    const isHere = this.#place.layer === layer && this.#place.head === head;
    const names = { layer: layer + 1, head: head + 1 };
    const cell = element('td', {
      role: 'gridcell',
      tabindex: isHere ? '0' : '-1',
      'aria-selected': String(isChosen),
      'data-layer': layer,
      'data-head': head,
    });
    if (pair === null) {
      cell.ariaLabel = say('cell', names);
      const canvas = element('canvas', { 'aria-hidden': 'true' });
      paint(canvas, plane, max, palette());
      cell.append(canvas);
      return cell;
    }
    const value = plane[pair.row][pair.column];
    cell.ariaLabel = say('cellNumber', { ...names, number: decimal(value, 4) });
    cell.title = cell.ariaLabel;
    const colour = rampColour(palette(), value / max);
    cell.style.setProperty('--colour', hex(colour));
    cell.style.setProperty('--on-colour', isLight(colour) ? '#14161a' : '#ffffff');
    cell.append(element('span', { 'aria-hidden': 'true', text: decimal(value, 2) }));
    return cell;
  }

  #cell(layer, head) {
    return /** @type {HTMLElement|null} */ (
      this.root.querySelector(`[data-layer="${layer}"][data-head="${head}"]`)
    );
  }

  #click(target) {
    const cell = /** @type {HTMLElement|null} */ (target.closest('[data-layer]'));
    if (cell === null) return;
    this.#go(Number(cell.dataset.layer), Number(cell.dataset.head));
    this.choose(this.#place.layer, this.#place.head);
  }

  #press(event) {
    if (this.#shown === null || event.ctrlKey || event.altKey || event.metaKey) return;
    const { layer, head } = this.#place;
    const places = {
      ArrowUp: [layer - 1, head],
      ArrowDown: [layer + 1, head],
      ArrowLeft: [layer, head - 1],
      ArrowRight: [layer, head + 1],
      Home: [layer, 0],
      End: [layer, this.#shown.planes[0].length - 1],
    };
    if (['Enter', ' '].includes(event.key)) this.choose(layer, head);
    else if (event.key in places) this.#go(...places[event.key]);
    else return;
    event.preventDefault();
  }

  #go(layer, head) {
    const next = this.#cell(layer, head);
    if (next === null) return;
    this.#cell(this.#place.layer, this.#place.head)?.setAttribute('tabindex', '-1');
    next.setAttribute('tabindex', '0');
    this.#place = { layer, head };
    next.focus();
  }
}

function headRow(count) {
  const names = Array.from({ length: count }, (_, head) => {
    const label = say('head', { head: head + 1 });
    return element('th', { scope: 'col', text: `${head + 1}`, 'aria-label': label });
  });
  return element('tr', {}, element('td'), ...names);
}
