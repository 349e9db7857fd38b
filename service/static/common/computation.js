// The table of the computation of one token in one head: a row for each token, a column for each step.

import { element, tokenParts } from './dom.js';
import { scaleOf, strip } from './strip.js';
import { speaker } from './strings.js';
import { decimal, percent, spoken, tokenName } from './text.js';
import { steps } from '../strings/steps.js';

const say = speaker(steps);

const WRITTEN = 3; // Numbers of a vector that are written out.

/** Writes a number with two decimals. */
export const short = (value) => decimal(value, 2);

/** Writes the first numbers of a vector. */
export const firstNumbers = (vector) =>
  element('span', { class: 'numbers' }, ...vector.slice(0, WRITTEN).map((value) => element('span', { text: short(value) })));

/** Draws a share as a bar with its percentage. */
export function bar(share) {
  const filled = element('i');
  filled.style.setProperty('--share', share);
  return element('span', { class: 'bar' }, percent(share), element('span', {}, filled));
}

/** Returns the row of the token that gets most. */
export const topOf = ({ rows }) => rows.reduce((a, b) => (b.weight > a.weight ? b : a));

/** Reports whether the model adds a bias for the distance of two tokens, as MPNet does. */
export const hasBias = ({ rows }) => rows[0].bias !== undefined;

/**
 * The columns: for each, its heading, the cell of a row, and the cell of the sum, if any. The
 * columns `q`, `k`, `v` and `faded` need a reply with vectors.
 * @type {Object<string, {kind?: string, head: function(any): string, cell: function(any, any, number): (string|Node), foot?: function(any): (string|Node)}>}
 */
const COLUMNS = {
  q: { head: () => 'q', cell: (_, { vectors, keys }, index) => (index ? '' : strip(vectors.q, keys, 'q')) },
  k: { head: () => 'k', cell: (row, { vectors, keys }, index) => strip(vectors.k[index], keys, say('keyOf', { token: tokenName(row.token) })) },
  v: { head: () => 'v', cell: (row, { vectors, values }, index) => strip(vectors.v[index], values, say('valueOf', { token: tokenName(row.token) })) },
  product: { head: () => say('columnProduct'), cell: (row) => short(row.score) },
  root: { head: ({ head_dim: size }) => say('columnRoot', { size }), cell: (row) => short(row.scaled) },
  mask: { head: () => say('columnMask'), cell: (row, { query }) => (row.key > query.index ? '−∞' : short(row.scaled)) },
  distance: { head: () => say('distance'), cell: (row) => short(row.bias) },
  softmax: {
    kind: 'share',
    head: () => say('columnSoftmax'),
    cell: (row) => bar(row.weight),
    foot: ({ rows }) => percent(rows.reduce((sum, { weight }) => sum + weight, 0)),
  },
  faded: { head: () => say('columnFaded'), cell: faded, foot: ({ z, values }) => strip(z, values, 'z') },
  weighted: { head: ({ head_dim: size }) => say('columnValues', { shown: WRITTEN, size }), cell: (row) => firstNumbers(row.value), foot: ({ z }) => firstNumbers(z) },
  strip: {
    head: ({ rows, head_dim: size }) => say('columnValues', { shown: rows[0].value.length, size }),
    cell: (row, { scale }) => strip(row.value, scale, say('weightedOf', { token: tokenName(row.token) })),
    foot: ({ rows, z, scale }) => strip(z.slice(0, rows[0].value.length), scale, say('firstZ')),
  },
  length: { head: () => say('columnLength'), cell: (row) => decimal(row.value_norm), foot: () => '= z' },
};

/** Draws the value of a token as faint as its share is small. */
function faded({ token, weight }, { vectors, values }, index) {
  const drawn = strip(vectors.v[index], values, say('valueOf', { token: tokenName(token) }));
  drawn.style.setProperty('opacity', String(Math.max(0.04, weight)));
  return drawn;
}

/**
 * Returns the head, the body and the foot of the table.
 * @param {Json} reply Of POST /attention/steps.
 * @param {string[]} names Columns, by name.
 */
export function stepParts(reply, names) {
  const { rows, z, vectors } = reply;
  const scales = vectors && { keys: scaleOf([vectors.q, ...vectors.k]), values: scaleOf(vectors.v) };
  const facts = { ...reply, ...scales, scale: scaleOf([...rows.map(({ value }) => value), z]) };
  const columns = names.filter((name) => name !== 'distance' || hasBias(reply)).map((name) => COLUMNS[name]);
  const heads = columns.map(({ kind = null, head }) => element('th', { scope: 'col', class: kind, text: head(facts) }));
  const top = topOf(reply);
  const body = rows.map((row, index) =>
    element(
      'tr',
      { class: row === top ? 'top' : null },
      element('th', { scope: 'row' }, ...tokenParts(tokenName(row.token))),
      ...columns.map(({ kind = null, cell }) => element('td', { class: kind }, cell(row, facts, index))),
    ),
  );
  const parts = [
    element('thead', {}, element('tr', {}, element('th', { scope: 'col', text: say('token') }), ...heads)),
    element('tbody', {}, ...body),
  ];
  if (!columns.some(({ foot }) => foot)) return parts;
  const feet = columns.map(({ kind = null, foot }) => element('td', { class: kind }, foot ? foot(facts) : ''));
  const name = element('th', { scope: 'row', text: say('rowSum') });
  return [...parts, element('tfoot', {}, element('tr', {}, name, ...feet))];
}

/** Returns the token that asks: the generated one in cross-attention, else the one that is read. */
export const askingOf = ({ kind, query }) =>
  spoken(kind === 'cross' ? (query.predicted ?? query.token) : query.token);
