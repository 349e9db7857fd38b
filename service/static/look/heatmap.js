// The heat map on the page: the pointer and the arrow keys move one cursor.

import { element, setText, tokenParts } from '../common/dom.js';
import { drawFigure, moveCursor } from './figure.js';
import { palette } from '../common/palette.js';
import { speaker } from '../common/strings.js';
import { decimal } from '../common/text.js';
import { look } from '../strings/look.js';

const say = speaker(look);

const MAX_TABLE_CELLS = 20000;

/** A heat map in an element that takes the focus. */
export class HeatMap {
  #figure = null;
  #place = { row: 0, column: 0 };
  #isPlaced = false;
  #touched = null;

  /**
   * @param {Object} parts
   * @param {HTMLElement} parts.root
   * @param {HTMLDetailsElement} parts.table Element that shows the same numbers as a table.
   * @param {function(number, number): void} parts.point Called when the cursor moves.
   * @param {function(number, number): void} parts.open Called when a cell is chosen.
   */
  constructor(parts) {
    Object.assign(this, parts);
    this.root.addEventListener('pointerdown', (event) => this.#touch(event));
    this.root.addEventListener('mouseover', (event) => this.#hover(event.target));
    this.root.addEventListener('click', (event) => this.#click(event.target));
    this.root.addEventListener('keydown', (event) => this.#press(event));
    this.root.addEventListener('focus', () => this.#to(this.#place.row, this.#place.column));
    this.table.addEventListener('toggle', () => this.#fillTable());
    document.addEventListener('themechange', () => this.#draw());
    new ResizeObserver(() => this.#resize()).observe(this.root.parentElement);
  }

  /**
   * Shows a figure. If the words are the same, the cursor stays, so that heads can be compared.
   * @param {Figure} figure
   * @param {string} label Description for screen readers.
   */
  show(figure, label) {
    this.#isPlaced &&= sameLabels(figure, this.#figure);
    this.#figure = figure;
    this.root.setAttribute('aria-label', label);
    this.table.querySelector('caption').textContent = label;
    this.#draw();
    this.#fillTable();
  }

  /** The figure that is shown. */
  get figure() {
    return this.#figure;
  }

  /** Moves the cursor to the largest cell of a row. */
  toRow(row) {
    const values = this.#figure.values[row];
    this.#to(row, values.indexOf(Math.max(...values)));
  }

  /** The cursor's row and column. */
  get place() {
    return this.#place;
  }

  #width = 0;

  #resize() {
    if (this.root.parentElement.clientWidth !== this.#width) this.#draw();
  }

  #draw() {
    if (this.#figure === null) return;
    this.#width = this.root.parentElement.clientWidth;
    if (this.#width === 0) return; // The element is not laid out yet.
    const drawing = drawFigure(this.#figure, palette(), this.#width);
    drawing.setAttribute('aria-hidden', 'true');
    this.root.replaceChildren(drawing);
    if (this.#isPlaced) this.#to(this.#place.row, this.#place.column);
    else this.#place = { row: 0, column: 0 };
  }

  #to(row, column) {
    const cell = this.root.querySelector(`rect[data-row="${row}"][data-column="${column}"]`);
    if (cell === null) return;
    this.#place = { row, column };
    this.#isPlaced = true;
    moveCursor(this.root, cell, row, column, palette());
    if (document.activeElement === this.root)
      cell.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    this.point(row, column);
  }

  #hover({ dataset }) {
    if (dataset.row !== undefined) this.#to(Number(dataset.row), Number(dataset.column));
  }

  /** Handles a tap: the first tap on a cell shows its value, the second opens it. */
  #touch({ pointerType, target }) {
    const { row, column } = this.#place;
    const isHere = target.dataset.row === String(row) && target.dataset.column === String(column);
    const isAgain = isHere && this.#isPlaced;
    this.#touched = pointerType === 'touch' && !isAgain ? target : null;
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
    this.#to(to, Math.min(last, Math.max(0, wantedColumn)));
    return true;
  }

  /** Fills the table only when it is unfolded, as it may have thousands of cells. */
  #fillTable() {
    const { table, figure } = { table: this.table.querySelector('table'), figure: this.#figure };
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

function sameLabels(figure, other) {
  const key = ({ rows, columns }) => JSON.stringify([rows, columns]);
  return other !== null && key(figure) === key(other);
}

function tableRow({ values, isCausal }, label, row) {
  const cells = values[row].map((value, column) =>
    element('td', { text: isCausal && column > row ? '' : decimal(value) }),
  );
  return element('tr', {}, element('th', { scope: 'row' }, ...tokenParts(label)), ...cells);
}
