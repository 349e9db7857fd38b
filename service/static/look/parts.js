// The parts of a number of the map: heads of a mean, layers of a rollout, tokens of a word.

import { speaker } from '../common/strings.js';
import { spoken } from '../common/text.js';
import { number } from '../strings/number.js';
import * as attention from './attention.js';

const say = speaker(number);

/**
 * A cell of the map, with everything that tells how its number came about.
 * @typedef {Object} Cell
 * @property {Object} view
 * @property {Subject} subject
 * @property {Tables} tables
 * @property {number} row
 * @property {number} column
 * @property {number} value
 * @property {string} from The word of the row.
 * @property {string} to The word of the column.
 */

/**
 * How a number is made.
 * @typedef {Object} Made
 * @property {string[]} words Sentences.
 * @property {Array<{label: string, value: number, more: number|undefined, change: Object}>} parts
 *     Each with the change of the view that opens it.
 * @property {string[]} columns Headings of the parts.
 * @property {Array<[string, number]>} total Rows below the parts.
 */

/**
 * Returns how a number is made.
 * @param {Cell} cell
 * @param {function(Object): Promise<Object>} ask Requests the item of a body of POST /attention.
 * @returns {Promise<Made>}
 */
export async function partsOf(cell, ask) {
  const { view, subject, tables } = cell;
  if (view.layer === 'rollout') {
    const body = attention.tokensBody(view, subject);
    return rolloutParts(cell, await ask(body));
  }
  if (view.layer === 'all') {
    const body = attention.layerMeansBody(view, subject);
    return layerParts(cell, await ask(body));
  }
  if (view.head === 'mean') return headParts(cell);
  const counts = [tables.rows.counts[cell.row], tables.columns.counts[cell.column]];
  if (view.level === 'token' || Math.max(...counts) === 1) return oneHead(cell);
  return tokenParts(cell, counts, await ask(attention.tokensBody(view, subject)));
}

function headParts({ view, tables, row, column }) {
  const { layer, sizes } = view;
  if (tables.planes.length < 2) return { words: [say('tooManyHeads')], parts: [] };
  const parts = tables.planes.map(({ name, values }) => ({
    label: say('head', { head: name + 1 }),
    value: values[row][column],
    change: { layer, head: name },
  }));
  const words = [say('meanOfHeads', { count: sizes.heads, layer: layer + 1 })];
  return { words, parts, columns: [say('headName'), say('number')], total: meanOf(parts) };
}

/** Returns the rows that add up parts and divide their sum by their number. */
function meanOf(parts) {
  const sum = parts.reduce((total, { value }) => total + value, 0);
  const { length: count } = parts;
  return [
    [say('sum'), sum],
    [say('divided', { count }), sum / count],
  ];
}

function layerParts({ view, row, column }, item) {
  const planes = item.attentions[0].data.map(([plane]) => plane);
  const parts = planes.map((values, layer) => ({
    label: say('layer', { layer: layer + 1 }),
    value: values[row][column],
    change: { layer, head: 'mean' },
  }));
  const { layers, heads } = view.sizes;
  const words = [say('meanOfLayers', { layers, heads })];
  return { words, parts, columns: [say('layerName'), say('number')], total: meanOf(parts) };
}

/** Follows a rollout from layer to layer, and shows its number after each. */
function rolloutParts(cell, item) {
  const layers = item.attentions[0].data.map(([plane]) => plane);
  const parts = [];
  let product = null;
  layers.forEach((mean, layer) => {
    product = nextRollout(mean, product);
    parts.push({
      label: say('layer', { layer: layer + 1 }),
      value: ofWords(mean, cell),
      more: ofWords(product, cell),
      change: { layer, head: 'mean' },
    });
  });
  const words = [say('rollout', { layers: layers.length }), say('rolloutLayers')];
  return { words, parts, columns: [say('layerName'), say('meanHere'), say('rolloutHere')] };
}

/** Returns (mean + identity) / 2 times the product of the layers below. */
function nextRollout(mean, below) {
  const half = mean.map((row, r) => row.map((weight, c) => (weight + (r === c ? 1 : 0)) / 2));
  if (below === null) return half;
  return half.map((row) =>
    row.map((_, c) => row.reduce((sum, weight, k) => sum + weight * below[k][c], 0)),
  );
}

/** Returns the number of a cell of words: sums over the columns' tokens, means over the rows'. */
function ofWords(plane, cell) {
  const rows = rowSums(plane, cell);
  return rows.reduce((sum, { value }) => sum + value, 0) / rows.length;
}

/** Returns for each token of the cell's row the sum over the tokens of the cell's column. */
function rowSums(plane, { tables: { rows, columns }, row, column }) {
  const first = columns.tokens[column];
  return range(rows.tokens[row], rows.counts[row]).map((token) => {
    const weights = plane[token].slice(first, first + columns.counts[column]);
    return { token, value: weights.reduce((sum, weight) => sum + weight, 0), weights };
  });
}

const range = (first, count) => Array.from({ length: count }, (_, index) => first + index);

function tokenParts(cell, [fromCount, toCount], item) {
  const { view, from, to } = cell;
  const { layer, head } = view;
  const words = [say('oneHead', { layer: layer + 1, head: head + 1 })];
  if (toCount > 1) words.push(say('sumOfTokens', { count: toCount, word: to }));
  if (fromCount > 1) words.push(say('meanOfTokens', { count: fromCount, word: from }));
  const tables = attention.readTables(item);
  const rows = rowSums(tables.planes[0].values, cell);
  const first = cell.tables.columns.tokens[cell.column];
  const columns = [say('token'), say('number')];
  if (fromCount === 1) {
    const [{ token: query, value: sum, weights }] = rows;
    const parts = weights.map((value, place) =>
      tokenPart(tables.columns.labels, first + place, value, { query, key: first + place }),
    );
    return { words, parts, columns, total: [[say('sum'), sum]] };
  }
  const parts = rows.map(({ token: query, value, weights }) => {
    const key = first + weights.indexOf(Math.max(...weights));
    return tokenPart(tables.rows.labels, query, value, { query, key });
  });
  return { words, parts, columns, total: meanOf(parts) };
}

function tokenPart(labels, token, value, pins) {
  const label = say('tokenName', { token: spoken(labels[token]) });
  return { label, value, change: { level: 'token', ...pins } };
}

function oneHead({ view: { layer, head, norm } }) {
  const words = [say('oneHead', { layer: layer + 1, head: head + 1 })];
  words.push(say(norm === 'weights' ? 'weight' : 'valueNorm'));
  return { words, parts: [] };
}
