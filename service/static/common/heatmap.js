// The heat map on the page: the pointer and the arrow keys move one cursor.

import { element, setText, tokenParts } from './dom.js';
import { saveButtons } from './export.js';
import { drawFigure, moveMarkers, writeDecimal } from './figure.js';
import { palette } from './palette.js';
import { captioned, scaleOf } from './picture.js';
import { speaker } from './strings.js';
import { look } from '../strings/look.js';

const say = speaker(look);

const MAX_TABLE_CELLS = 20000;

/**
 * Creates the parts of a heat map: its element in a frame, the line that describes a cell, and the
 * fold with the same numbers as a table.
 * @param {string} id
 */
export function mapParts(id) {
  const readout = element('p', { class: 'readout', role: 'status', id: `${id}-readout` });
  const root = element('div', {
    ...{ id, role: 'application', tabindex: 0, 'aria-roledescription': say('mapRole') },
    'aria-describedby': readout.id,
  });
  const cells = element('table', {}, element('caption'));
  const table = element(
    'details',
    {},
    element('summary', { text: say('asTable') }),
    element('p', { class: 'too-large' }),
    element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': say('table') }, cells),
  );
  return { root, readout, table, frame: element('div', { class: 'frame' }, root) };
}

/** A heat map in an element that takes the focus. */
export class HeatMap {
  /** @type {Figure|null} */
  #figure = null;
  #place = { row: 0, column: 0 };
  #isPlaced = false;
  /** @type {EventTarget|null} */
  #touched = null;

  /** @type {{row: number|null, column: number|null}} */
  #lit = { row: null, column: null };
  /** @type {Place|null} */
  #pin = null;

  /**
   * @param {Object} parts
   * @param {HTMLElement} parts.root
   * @param {HTMLDetailsElement} parts.table Element that shows the same numbers as a table.
   * @param {function(number, number): void} parts.point Called when the cursor moves.
   * @param {function(number, number): void} parts.open Called when a cell is chosen.
   * @param {function(number, number): void} [parts.light] Called when the reader points at a cell.
   * @param {function(): void} [parts.leave] Called when the reader points at no cell any more.
   * @param {boolean} [parts.isDirect] Whether the first tap of a finger opens a cell too.
   */
  constructor(parts) {
    this.root = parts.root;
    this.table = parts.table;
    this.point = parts.point;
    this.open = parts.open;
    this.light = parts.light ?? (() => {});
    this.leave = parts.leave ?? (() => {});
    this.isDirect = parts.isDirect ?? false;
    this.root.addEventListener('pointerdown', (event) => this.#touch(event));
    this.root.addEventListener('mouseover', (event) => this.#hover(/** @type {HTMLElement} */ (event.target)));
    this.root.addEventListener('mouseleave', () => this.#rest());
    this.root.addEventListener('blur', () => this.#rest());
    this.root.addEventListener('click', (event) => this.#click(event.target));
    this.root.addEventListener('keydown', (event) => this.#press(event));
    this.root.addEventListener('focus', () => this.#go(this.#place.row, this.#place.column));
    this.table.addEventListener('toggle', () => this.#fillTable());
    document.addEventListener('themechange', () => this.#draw());
    this.frame = /** @type {HTMLElement} */ (this.root.parentElement);
    this.scale = element('p');
    this.root.after(this.scale);
    this.cells = /** @type {HTMLTableElement} */ (this.table.querySelector('table'));
    new ResizeObserver(() => this.#resize()).observe(this.frame);
  }

  /**
   * Shows a figure. If the words are the same, the cursor stays, so that heads can be compared.
   * @param {Figure} figure
   * @param {string} label Description for screen readers.
   */
  show(figure, label) {
    if (!sameLabels(figure, this.#figure)) {
      this.#isPlaced = false;
      this.#pin = null;
      this.#lit = { row: null, column: null };
    }
    this.#figure = figure;
    this.root.setAttribute('aria-label', label);
    this.cells.caption?.replaceChildren(label);
    this.#draw();
    this.#fillTable();
  }

  /** The figure that is shown. */
  get figure() {
    return this.#figure;
  }

  /** Pins a cell, a row or a column, and moves the cursor there; null pins none. */
  pin(row, column) {
    this.#pin = row === null || column === null ? null : { row, column };
    this.#lit = { row, column };
    const values = this.#figure?.values[row ?? -1];
    if (values) this.#to(row, column ?? largestOf(values));
    else this.#mark();
  }

  /** Returns the buttons that save the map, with its description as its caption. */
  saveButtons(name) {
    const draw = () => captioned(this.#figure, { above: [this.root.getAttribute('aria-label') ?? ''], below: [] });
    return saveButtons(() => name, draw);
  }

  /** Outlines the row and the column of words that the reader points at elsewhere. */
  outline(row, column) {
    this.#lit = { row, column };
    this.#mark();
  }

  /** The cursor's row and column. */
  get place() {
    return this.#place;
  }

  #width = 0;

  #resize() {
    if (this.frame.clientWidth !== this.#width) this.#draw();
  }

  #draw() {
    if (this.#figure === null) return;
    this.#width = this.frame.clientWidth;
    if (this.#width === 0) return; // The element is not laid out yet.
    const drawing = drawFigure(this.#figure, palette(), this.#width);
    drawing.setAttribute('aria-hidden', 'true');
    this.root.replaceChildren(drawing);
    this.scale.replaceWith((this.scale = scaleOf(this.#figure)));
    this.scale.hidden = this.#figure.isWritten === false;
    if (this.#isPlaced) this.#to(this.#place.row, this.#place.column);
    else this.#place = { row: 0, column: 0 };
    this.#mark();
  }

  #to(row, column) {
    const cell = this.root.querySelector(`rect[data-row="${row}"][data-column="${column}"]`);
    if (cell === null) return;
    this.#place = { row, column };
    this.#isPlaced = true;
    this.#mark();
    if (document.activeElement === this.root)
      cell.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    this.point(row, column);
  }

  #mark() {
    if (this.root.querySelector('.marker') === null) return;
    const cursor = this.#isPlaced ? this.#place : null;
    moveMarkers(this.root, { ...this.#lit, pin: this.#pin, cursor }, palette());
  }

  /** Moves the cursor because the reader points there. */
  #go(row, column) {
    if (this.#figure === null) return;
    this.#to(row, column);
    this.light(this.#place.row, this.#place.column);
  }

  /** Returns to the pinned cell, if any. */
  #rest() {
    if (this.root.matches(':focus, :hover')) return;
    if (this.#pin) this.#to(this.#pin.row, this.#pin.column);
    this.leave();
  }

  #hover({ dataset }) {
    if (dataset.row !== undefined) this.#go(Number(dataset.row), Number(dataset.column));
  }

  /** Handles a tap: the first tap on a cell shows its value, the second opens it. */
  #touch({ pointerType, target }) {
    const { row, column } = this.#place;
    const isHere = target.dataset.row === String(row) && target.dataset.column === String(column);
    const isAgain = isHere && this.#isPlaced;
    this.#touched = pointerType === 'touch' && !isAgain && !this.isDirect ? target : null;
  }

  #click(target) {
    if (target.dataset.row === undefined) return;
    this.#hover(target);
    if (this.#touched === target) this.#touched = null;
    else this.open(this.#place.row, this.#place.column);
  }

  #press(event) {
    if (this.#figure === null || event.ctrlKey || event.altKey || event.metaKey) return;
    if (['Enter', ' '].includes(event.key)) this.open(this.#place.row, this.#place.column);
    else if (!this.#step(event.key)) return;
    event.preventDefault();
  }

  #step(key) {
    if (this.#figure === null) return false;
    const { row, column } = this.#place;
    const { rows, columns, isCausal } = this.#figure;
    const places = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      Home: [row, 0],
      End: [row, columns.length - 1],
      PageUp: [0, column],
      PageDown: [rows.length - 1, column],
    };
    if (!(key in places)) return false;
    const [wantedRow, wantedColumn] = places[key];
    const to = Math.min(rows.length - 1, Math.max(0, wantedRow));
    const last = isCausal ? to : columns.length - 1;
    this.#go(to, Math.min(last, Math.max(0, wantedColumn)));
    return true;
  }

  /** Fills the table only when it is unfolded, as it may have thousands of cells. */
  #fillTable() {
    const { cells: table } = this;
    const figure = this.#figure;
    table.tBodies[0]?.remove();
    table.tHead?.remove();
    if (!this.table.open || figure === null) return;
    const isLarge = figure.rows.length * figure.columns.length > MAX_TABLE_CELLS;
    setText(
      this.table.querySelector('.too-large'),
      isLarge ? say('tooLarge') : '',
    );
    if (isLarge) return;
    const heads = figure.columns.map((label) =>
      element('th', { scope: 'col' }, ...tokenParts(label)),
    );
    table.append(element('thead', {}, element('tr', {}, element('td'), ...heads)));
    table.append(
      element('tbody', {}, ...figure.rows.map((label, row) => tableRow(figure, label, row))),
    );
  }
}

const largestOf = (values) => values.indexOf(Math.max(...values));

function sameLabels(figure, other) {
  const key = ({ rows, columns }) => JSON.stringify([rows, columns]);
  return other !== null && key(figure) === key(other);
}

function tableRow({ values, isCausal, write = writeDecimal }, label, row) {
  const cells = values[row].map((value, column) =>
    element('td', { text: isCausal && column > row ? '' : write(value, 1) }),
  );
  return element('tr', {}, element('th', { scope: 'row' }, ...tokenParts(label)), ...cells);
}
