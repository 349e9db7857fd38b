// Draws a heat map as SVG, for the page and for downloads.

import { SVG, svg } from './dom.js';
import { hex, isLight, rampColour, signedColour } from './palette.js';
import { decimal, splitMark } from './text.js';

export const FAMILY = '"Helvetica Neue", "Segoe UI", "Liberation Sans", Arial, sans-serif';
export const FONT = 13;
export const BOLD = 1.06; // Width of bold letters, as a share of usual ones.
const GAP = 8;
const MIN_CELL = 15;
const MAX_CELL = 44;
const NUMBERS_FROM = 36; // Cells of this width and above show their numbers.
const NUMBERS_SHARE = 0.2; // Share of the largest value; smaller values are shown by colour alone.
const SLANTED_FROM = 19; // Narrower columns have upright labels.
const SLANT = Math.PI / 4;
const MIN_LABEL = 18; // Characters of a longer label that are shown in a narrow drawing.
const MAX_LABEL = 44; // And in a wide one.
const LABEL_SHARE = 1 / 24; // Characters for each pixel of the width.

/** @typedef {{row: number, column: number}} Place The place of a cell. */

/**
 * The data of a heat map.
 * @typedef {Object} Figure
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {number[][]} values
 * @property {number} max Value of the darkest colour.
 * @property {boolean} isCausal Whether cells right of the diagonal are left out.
 * @property {boolean} [isSigned] Whether values can be below 0: they are grey then.
 * @property {function(number, number): string} [write] Writes a value in a cell (0) or in the table (1).
 * @property {Set<string>} [crossed] Cells with a cross, each as `row column`.
 * @property {boolean} [isWritten] Whether small values have their numbers too, where there is room.
 * @property {string} rowTitle
 * @property {string} columnTitle
 */

/**
 * Draws a figure.
 * @param {Figure} figure
 * @param {Object} colours A palette.
 * @param {number} width Wanted width in pixels; a large figure is wider.
 * @returns {SVGSVGElement} A drawing with `data-row` and `data-column` on every cell.
 */
export function drawFigure(figure, colours, width) {
  const frame = measure(figure, width);
  const root = svg('svg', {
    xmlns: SVG,
    width: frame.width,
    height: frame.height,
    viewBox: `0 0 ${frame.width} ${frame.height}`,
    'font-family': FAMILY,
    'font-size': frame.font,
  });
  root.append(svg('rect', { class: 'paper', width: '100%', height: '100%', fill: colours.paper }));
  root.append(...titles(figure, frame, colours));
  root.append(...figure.columns.map((label, column) => columnLabel(label, column, frame, colours)));
  root.append(...figure.rows.map((label, row) => rowLabel(label, row, frame, colours)));
  root.append(...cells(figure, frame, colours));
  root.append(...markers(figure, frame));
  return root;
}

/** Draws the outlines that mark a row, a column, the pinned cell and the cursor; all are hidden. */
function markers({ rows, columns }, { left, top, cell }) {
  const hidden = { fill: 'none', stroke: 'none', 'pointer-events': 'none' };
  const row = { x: 0, width: left + columns.length * cell, height: cell - 1 };
  const column = { y: top - 4, width: cell - 1, height: rows.length * cell + 4 };
  const box = { width: cell - 1, height: cell - 1 };
  return Object.entries({ row, column, pin: box, cursor: box }).map(([name, size]) =>
    svg('rect', { class: `marker ${name}`, ...size, ...hidden }),
  );
}

/**
 * Moves the outlines of a drawing to a row, a column, the pinned cell and the cursor.
 * @param {HTMLElement} root Element with the drawing.
 * @param {{row: number|null, column: number|null, pin: Place|null, cursor: Place|null}} places Null hides an outline.
 * @param {Object} colours A palette.
 */
export function moveMarkers(root, { row, column, pin, cursor }, colours) {
  const { accent, ink } = colours;
  const cellOf = (place) =>
    place && root.querySelector(`[data-row="${place.row}"][data-column="${place.column}"]`);
  const inRow = row === null ? null : root.querySelector(`[data-row="${row}"]`);
  const inColumn = column === null ? null : root.querySelector(`[data-column="${column}"]`);
  moveMarker(root.querySelector('.row'), inRow, ['y'], accent, 1.5);
  moveMarker(root.querySelector('.column'), inColumn, ['x'], accent, 1.5);
  moveMarker(root.querySelector('.pin'), cellOf(pin), ['x', 'y'], accent, 3);
  moveMarker(root.querySelector('.cursor'), cellOf(cursor), ['x', 'y'], ink, 2);
  const marked = [pin ?? {}, cursor ?? {}, { row, column }];
  const names = marked.flatMap((place) => [`row-${place.row}`, `column-${place.column}`]);
  for (const label of root.querySelectorAll('text[data-label]')) {
    const isHere = names.includes(label.getAttribute('data-label') ?? '');
    label.setAttribute('fill', isHere ? accent : ink);
    label.setAttribute('font-weight', isHere ? 'bold' : 'normal');
  }
}

function moveMarker(marker, cell, names, stroke, width) {
  for (const name of cell ? names : []) marker.setAttribute(name, cell.getAttribute(name));
  marker.setAttribute('stroke', cell ? stroke : 'none');
  marker.setAttribute('stroke-width', width);
}

/** Computes the sizes and positions of a drawing. */
function measure({ rows, columns, rowTitle, columnTitle }, width) {
  const letters = Math.round(Math.min(MAX_LABEL, Math.max(MIN_LABEL, width * LABEL_SHARE)));
  const labelWidth = (label) => textWidth(short(label, letters));
  const rowWidth = Math.max(...rows.map((label) => BOLD * labelWidth(label)), textWidth(`↓ ${rowTitle}`));
  const columnWidth = Math.max(...columns.map(labelWidth));
  const left = Math.ceil(rowWidth) + GAP;
  const overhang = columnWidth * Math.cos(SLANT);
  const slantedCell = (width - left - overhang) / (columns.length - 0.5);
  const isSlanted = slantedCell >= SLANTED_FROM;
  const upright = (width - left - 2) / columns.length;
  const room = isSlanted ? Math.min(slantedCell, upright) : upright;
  const cell = Math.floor(Math.min(MAX_CELL, Math.max(MIN_CELL, room)));
  const labels = isSlanted ? columnWidth * Math.sin(SLANT) + FONT : columnWidth + GAP;
  const top = Math.ceil(Math.max(labels, 2.4 * FONT)) + GAP;
  const right = isSlanted ? Math.max(2, overhang - cell / 2 + 4) : 2;
  const font = Math.min(FONT, cell - 2);
  return {
    ...{ cell, left, top, font, letters, isSlanted, title: `→ ${columnTitle}` },
    width: Math.ceil(left + cell * columns.length + right),
    height: top + cell * rows.length + 2,
  };
}

const pen = /** @type {CanvasRenderingContext2D} */ (
  document.createElement('canvas').getContext('2d')
);

/** Returns the width of a line of the usual size, in pixels. */
export function textWidth(text) {
  pen.font = `${FONT}px ${FAMILY}`;
  return pen.measureText(text).width;
}

/** Cuts a label that has more letters than a drawing shows. */
function short(label, count) {
  const letters = [...label];
  return letters.length > count ? `${letters.slice(0, count - 1).join('')}…` : label;
}

/** Writes a value with two decimals in a cell, and with three in the table. */
export const writeDecimal = (value, more) => decimal(value, 2 + more);

/** Draws the titles of the rows and columns in the corner between them. */
function titles({ rowTitle }, { left, top, title }, colours) {
  const place = { x: left - GAP, 'text-anchor': 'end', fill: colours.muted, 'font-size': 11 };
  return [
    svg('text', { ...place, y: top - GAP - 14 }, title),
    svg('text', { ...place, y: top - GAP }, `↓ ${rowTitle}`),
  ];
}

function columnLabel(label, column, { left, top, cell, letters, isSlanted }, colours) {
  const x = left + (column + 0.5) * cell + (isSlanted ? 0 : 4);
  const y = top - GAP;
  const transform = `rotate(${isSlanted ? -45 : -90} ${x} ${y})`;
  const attributes = { x, y, transform, 'data-label': `column-${column}` };
  return labelText(attributes, short(label, letters), colours);
}

function rowLabel(label, row, { left, top, cell, font, letters }, colours) {
  const y = top + (row + 0.5) * cell + font * 0.35;
  const place = { x: left - GAP, y, 'text-anchor': 'end' };
  return labelText({ ...place, 'data-label': `row-${row}` }, short(label, letters), colours);
}

function labelText(attributes, label, { ink, muted }) {
  const [mark, rest] = splitMark(label);
  const node = svg('text', { ...attributes, fill: ink });
  if (mark) node.append(svg('tspan', { fill: muted, 'fill-opacity': 0.6 }, mark));
  node.append(rest);
  return node;
}

function cellBox({ left, top, cell }, row, column) {
  return { x: left + column * cell, y: top + row * cell, width: cell - 1, height: cell - 1 };
}

function cells(figure, frame, colours) {
  const { write = writeDecimal } = figure;
  return figure.values.flatMap((values, row) =>
    values.flatMap((value, column) => {
      if (figure.isCausal && column > row) return [];
      const colour = (figure.isSigned ? signedColour : rampColour)(colours, value / figure.max);
      const data = { 'data-row': row, 'data-column': column };
      const box = svg('rect', { ...cellBox(frame, row, column), ...data, fill: hex(colour) });
      const isLarge = figure.isWritten || value >= NUMBERS_SHARE * figure.max;
      const hasNumber = frame.cell >= NUMBERS_FROM && isLarge;
      const isCrossed = figure.crossed?.has(`${row} ${column}`);
      if (!isCrossed && !hasNumber) return [box];
      return [box, isCrossed ? mark('✕', 20, colour, frame, row, column) : mark(write(value, 0), 11, colour, frame, row, column)];
    }),
  );
}

function mark(text, size, colour, { left, top, cell }, row, column) {
  const place = { x: left + (column + 0.5) * cell, y: top + (row + 0.5) * cell + 4 };
  const fill = isLight(colour) ? '#14161a' : '#ffffff';
  const fixed = { 'text-anchor': 'middle', 'font-size': size, 'pointer-events': 'none' };
  return svg('text', { ...place, ...fixed, fill }, text);
}
