// The figures of the story: vectors that can be read, tables of tokens, and bars.

import { element, folded, tokenParts } from '../common/dom.js';
import { withTerms } from '../common/glossary.js';
import { speaker } from '../common/strings.js';
import { scaleOf, strip } from '../common/strip.js';
import { decimal, percent, tokenName } from '../common/text.js';
import { story } from '../strings/story.js';
import { scrolling } from './table.js';

const say = speaker(story);

const SHOWN = 3; // Numbers of a vector that are written out.
const MANY_ROWS = 9; // A table with more rows is long.
const FEW_ROWS = 4; // Rows of a long table that are shown at first.

/** Writes a number with two decimals, and a number near 0 without a sign. */
export const short = (value) => decimal(Math.abs(value) < 0.005 ? 0 : value, 2);

/** Writes the first numbers of a vector. */
export const firstNumbers = (vector) =>
  vector.slice(0, SHOWN).map((value) => element('span', { text: short(value) }));

/**
 * Shows named vectors below each other: three numbers of each, and all of them as colours.
 * @param {Array<[string, number[]]>} vectors
 * @param {number|null} size Count of numbers, if the vectors hold only the first ones.
 */
export function vectorRows(vectors, size = null) {
  const scale = scaleOf(vectors.map(([, vector]) => vector));
  const rows = vectors.map(([name, vector]) =>
    element(
      'div',
      { class: 'vector' },
      element('b', { text: name }),
      element(
        'span',
        { class: 'numbers' },
        ...firstNumbers(vector),
        element('small', { text: say('more', { count: size ?? vector.length }) }),
      ),
      ...(size === null ? [strip(vector, scale, name)] : []),
    ),
  );
  return element('div', { class: 'vectors' }, ...rows);
}

/**
 * Shows a table with a row for each token. Of a long table, only the rows of the largest shares are
 * shown until the reader asks for all.
 * @param {string} title Name of the table for screen readers.
 * @param {string[]} tokens
 * @param {Array<{name: string, cells: Array<string|Node>, class?: string}>} columns
 * @param {Object} rows
 * @param {number} rows.most Row that is emphasised; -1 for none.
 * @param {number[]} rows.shares Shares of the tokens.
 * @param {string[]|null} [rows.total] Last row, if any.
 * @param {(function(number[]): string[])|null} [rows.rest] Returns the cells of a row that stands for
 *   the rows that are not shown.
 */
export function tokenTable(title, tokens, columns, { most, shares, total = null, rest = null }) {
  const isLong = tokens.length > MANY_ROWS;
  const least = [...shares].sort((a, b) => b - a)[isLong ? FEW_ROWS - 1 : tokens.length - 1];
  const head = headRow([say('token'), ...columns.map(({ name }) => name)]);
  columns.forEach(({ class: kind }, index) => kind && head.children[index + 1].classList.add(kind));
  const rows = tokens.map((token, row) =>
    element(
      'tr',
      { class: row === most ? 'top' : shares[row] < least ? 'minor' : null },
      element('th', { scope: 'row' }, ...tokenParts(tokenName(token))),
      ...columns.map(({ cells, class: kind = null }) =>
        element('td', { class: kind }, cells[row]),
      ),
    ),
  );
  const hidden = shares.flatMap((share, row) => (share < least ? [row] : []));
  if (rest && hidden.length > 0) {
    const others = totalRow([say('sum_rest', { count: hidden.length }), ...rest(hidden)], columns);
    others.classList.add('rest');
    rows.push(others);
  }
  const parts = [element('thead', {}, head), element('tbody', {}, ...rows)];
  if (total) parts.push(element('tfoot', {}, totalRow(total, columns)));
  const table = scrolling(title, element('table', {}, ...parts));
  return isLong ? element('div', {}, table, rowsButton(tokens.length)) : table;
}

/** Creates a button that shows or hides the minor rows of all tables of the story. */
function rowsButton(count) {
  return element(
    'button',
    {
      ...{ type: 'button', class: 'quiet rows' },
      onclick: ({ currentTarget }) => currentTarget.closest('.story').classList.toggle('whole'),
    },
    element('span', { class: 'few', text: say('all', { count }) }),
    element('span', { class: 'many', text: say('fewer') }),
  );
}

/**
 * Shows a table with a row for each of several looks: a name, a token and its share as a bar.
 * @param {string} title
 * @param {string[]} names Titles of the two columns.
 * @param {Array<{name: string, token: string, share: number}>} looks
 * @param {number} chosen Row that is emphasised; -1 for none.
 */
export function lookTable(title, names, looks, chosen = -1) {
  const rows = looks.map(({ name, token, share }, index) =>
    element(
      'tr',
      { class: index === chosen ? 'top' : null },
      element('th', { scope: 'row' }, ...tokenParts(name)),
      ...(token === null ? [] : [element('td', {}, ...tokenParts(tokenName(token)))]),
      element('td', { class: 'share' }, bar(share)),
    ),
  );
  const head = headRow([...names, ...(looks[0].token === null ? [] : [''])]);
  head.lastElementChild?.classList.add('share');
  const table = element('table', { class: 'looks' }, element('thead', {}, head), element('tbody', {}, ...rows));
  return scrolling(title, table);
}

/** Draws a share as a bar with its percentage. */
export function bar(share) {
  const filled = element('i');
  filled.style.setProperty('--share', share);
  return element('span', { class: 'bar' }, percent(share), element('span', {}, filled));
}

function headRow(names) {
  const heads = names.map((text) =>
    text === '' ? element('td') : element('th', { scope: 'col', text }),
  );
  return element('tr', {}, ...heads);
}

/**
 * @param {string[]} texts
 * @param {Array<{class?: string}>} columns
 */
function totalRow(texts, columns) {
  const [name, ...cells] = texts;
  const head = element('th', { scope: 'row', text: name });
  const kinds = columns.map(({ class: kind }) => kind ?? null);
  return element('tr', {}, head, ...cells.map((text, i) => element('td', { text, class: kinds[i] })));
}

/** Shows paragraphs of text with their terms; empty ones are left out. */
export const paragraphs = (...texts) =>
  texts.filter(Boolean).map((text) => element('p', {}, ...withTerms(text)));

/** Shows the details of a step in a fold. */
export const more = (...texts) => folded(say('about'), ...paragraphs(...texts));

/** Puts folds side by side; an open one takes the whole width. */
export const folds = (...details) => element('div', { class: 'folds' }, ...details);
