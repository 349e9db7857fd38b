// The words of the sentence and the cells of the map: each shows the other's numbers.

import { unitOffsets } from '../common/text.js';

const SHOWN_SHARE = 0.05; // Share of the scale; words with less are not lit.

/**
 * A word of the page: the side on which it stands, and its place in UTF-16 units.
 * @typedef {{side: string, span: number[]}} Word
 */

/**
 * The words that a word looks at, or that look at it, with the numbers of the map.
 * @typedef {Object} Gaze
 * @property {boolean} isLooking Whether the word looks at the others.
 * @property {Array<{side: string, span: number[], weight: number, share: number}>} lit The largest
 *     weight comes first; the share is the weight's part of the scale.
 */

/**
 * Finds the place of each text inside a whole text.
 * @param {string} whole
 * @param {string[]} parts In the order of the whole.
 * @returns {number[]} Indices; -1 for a part that the whole does not have.
 */
export function startsOf(whole, parts) {
  let next = 0;
  return parts.map((part) => {
    const start = whole.indexOf(part, next);
    if (start >= 0) next = start + part.length;
    return start;
  });
}

/** Relates the words of the page to the rows and columns of a map. */
export class Gaze {
  /**
   * @param {Tables} tables
   * @param {number[][]} values The plane that the map shows.
   * @param {number} scale The number of the strongest highlight.
   * @param {Object<string, {text: string, start: number}>} places By side: the text of the map's
   *     sentence, and its place in the whole text.
   */
  constructor(tables, values, scale, places) {
    Object.assign(this, { values, scale });
    this.rows = spansOnPage(tables.rows, places);
    this.columns = spansOnPage(tables.columns, places);
    this.written = spansOnPage(tables.written, places);
    this.sides = { rows: tables.rows.side, columns: tables.columns.side };
  }

  /** Returns the rows and columns of a word. */
  placesOf({ side, span }) {
    const found = (name) => (this.sides[name] === side ? overlapping(this[name], span) : []);
    return { rows: found('rows'), columns: found('columns') };
  }

  /** Returns the index of a word of the translation; undefined if it is none. */
  writtenAt({ side, span }) {
    return side === 'target' ? overlapping(this.written, span)[0] : undefined;
  }

  /** Returns the word at a row or column; null if it is none of the text. */
  wordAt(name, index) {
    const span = this[name][index];
    return span && { side: this.sides[name], span };
  }

  /**
   * Returns what a word looks at; a word without a row gets the words that look at it.
   * @param {Word} word
   * @returns {Gaze|null} Null if the map does not have the word.
   */
  of(word) {
    const { rows, columns } = this.placesOf(word);
    if (rows.length > 0) return { isLooking: true, lit: this.#lit('columns', this.#row(rows)) };
    if (columns.length === 0) return null;
    return { isLooking: false, lit: this.#lit('rows', this.#column(columns)) };
  }

  /** Returns the mean of some rows. */
  #row(rows) {
    const mean = (column) => rows.reduce((sum, row) => sum + this.values[row][column], 0);
    return this.columns.map((_, column) => mean(column) / rows.length);
  }

  /** Returns the sum of some columns. */
  #column(columns) {
    return this.values.map((row) => columns.reduce((sum, column) => sum + row[column], 0));
  }

  #lit(name, weights) {
    return weights
      .map((weight, index) => ({ ...this.wordAt(name, index), weight, share: weight / this.scale }))
      .filter(({ span, share }) => span && share >= SHOWN_SHARE)
      .sort((a, b) => b.weight - a.weight);
  }
}

/** Converts the spans of an axis from code points of its sentence to UTF-16 units of the page. */
function spansOnPage({ side, spans }, places) {
  const place = places[side];
  if (!place || place.start < 0) return spans.map(() => null);
  const units = unitOffsets(place.text);
  return spans.map((span) => span && span.map((point) => place.start + units[point]));
}

const overlapping = (spans, [start, end]) =>
  spans.flatMap((span, index) => (span && span[0] < end && span[1] > start ? [index] : []));
