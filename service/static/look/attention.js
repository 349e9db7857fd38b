// Converts a view to the body of POST /attention, and the reply to tables of numbers.

import { tokenName } from '../common/text.js';

const DECIMALS = 5;
const NUM_LIKELIEST = 5;

/**
 * A sequence and its translation, whose attention is shown.
 * @typedef {{text: string, source: string, target: string, wanted: string|null}} Translated
 */

/**
 * A text that a model embeds, whose attention is shown.
 * @typedef {{task: 'embed', text: string, model: string|null}} Embedded
 * @typedef {Translated|Embedded} Subject
 */

/** Reports whether a view merges several layers, so that it has no single heads. */
export const isMerged = (layer) => layer === 'all' || layer === 'rollout';

function subjectBody({ task, text, model, source, target, wanted }) {
  if (task === 'embed') return { task, text, ...(model === null ? {} : { model }) };
  return { text, source, target, ...(wanted === null ? {} : { target_text: wanted }) };
}

/** Returns the selection of layers and heads; one request gets all heads of a layer. */
function selection({ layer, head }, isNarrow) {
  if (layer === 'rollout') return { reduce: 'rollout' };
  if (layer === 'all') return { layers: 'all', reduce: 'mean_layers_heads' };
  if (!isNarrow) return { layers: [layer], reduce: 'none' };
  if (head === 'mean') return { layers: [layer], reduce: 'mean_heads' };
  return { layers: [layer], heads: [head], reduce: 'none' };
}

/**
 * Returns the request body for the attention that a view shows.
 * @param {Object} view A view whose layer is a number, `all` or `rollout`.
 * @param {Subject} subject
 * @param {boolean} isNarrow Whether to ask for the chosen head alone, because all are too many.
 */
export function attentionBody(view, subject, isNarrow) {
  const norm = view.layer === 'rollout' ? 'weights' : view.norm;
  return {
    ...subjectBody(subject),
    kinds: [view.kind],
    ...selection(view, isNarrow),
    ...(norm === 'weights' ? {} : { norm }),
    level: view.level,
    decimals: DECIMALS,
  };
}

/** Returns the request body for all heads of all layers. */
export function allHeadsBody(view, subject) {
  return { ...attentionBody(view, subject, false), layers: 'all', reduce: 'none' };
}

/** Returns the request body for the computation of one token. */
export function stepsBody(view, subject) {
  const { kind, layer, head, query, vectors } = view;
  return { ...subjectBody(subject), kind, layer, head, query, ...(vectors ? { include: ['vectors'] } : {}) };
}

/** Returns the request body for the probabilities of all target tokens, with a named word. */
export function probabilitiesBody({ named }, subject) {
  const probabilities = { top_k: NUM_LIKELIEST, ...(named === '' ? {} : { tokens: [named] }) };
  return { ...subjectBody(subject), kinds: ['cross'], top_k: 1, probabilities };
}

/** Returns a request body that gets a text's sentences with as few numbers as possible. */
export function outlineBody({ text, source, target }) {
  return { text, source, target, split: true, kinds: ['cross'], level: 'word', top_k: 1 };
}

/**
 * The tables of one item.
 * @typedef {Object} Tables
 * @property {Axis} rows Tokens or words that attend.
 * @property {Axis} columns Tokens or words that they attend to.
 * @property {Array<{name: number|string, values: number[][]}>} planes One table by head, or a mean.
 * @property {boolean} isCausal Whether all weights right of the diagonal are 0.
 */

/**
 * Reads an item of a reply that asked for one kind.
 * @returns {Tables}
 */
export function readTables(item) {
  const [attention] = item.attentions;
  const { kind, heads, data } = attention;
  const names = Array.isArray(heads) ? heads : [heads];
  const source = axis('source', item.source);
  const written = axis('target', item.target ?? NOTHING);
  const read = inputAxis(written, item.target ?? NOTHING);
  const [rows, columns] = {
    encoder: [source, source],
    cross: [written, source],
    decoder: [read, read],
  }[kind];
  const planes = names.map((name, index) => ({ name, values: data[0][index] }));
  return { rows, columns, planes, isCausal: kind === 'decoder', inputs: read, written, kind };
}

const NOTHING = { tokens: [], ids: [], offsets: [], special: [], input_tokens: [] };

/**
 * The labels along one side of a map.
 * @typedef {Object} Axis
 * @property {string} side `source` or `target`.
 * @property {string[]} labels
 * @property {number[]} tokens The first token of each label.
 * @property {number[]} counts The number of tokens of each label.
 * @property {Array<number[]|null>} spans The place of each label in code points; null for a special
 *     token, which has no text.
 */
function axis(side, { tokens, ids, offsets, special }) {
  const counts = ids.map((id) => (Array.isArray(id) ? id.length : 1));
  let next = 0;
  const first = counts.map((count) => (next += count) - count);
  const spans = offsets.map((span, index) => (special[index] ? null : span));
  return { side, labels: tokens.map(tokenName), tokens: first, counts, spans };
}

/** Returns the axis of the tokens that the decoder reads: each is the token written before. */
function inputAxis(written, { input_tokens: inputs }) {
  const spans = [null, ...written.spans.slice(0, -1)];
  return { ...written, labels: inputs.map(tokenName), spans };
}

/** Returns the index of a token on an axis; -1 if the axis does not have it. */
export function placeOf({ tokens }, token) {
  return tokens.findLastIndex((first) => first <= token);
}

/** Returns the table of one head, or the mean of all. */
export function chosenPlane(tables, head) {
  const { planes } = tables;
  const chosen = planes.find(({ name }) => name === head);
  if (chosen || planes.length === 1) return (chosen ?? planes[0]).values;
  return planes[0].values.map((row, r) => row.map((_, c) => meanOf(planes, r, c)));
}

function meanOf(planes, row, column) {
  return planes.reduce((sum, { values }) => sum + values[row][column], 0) / planes.length;
}

/** Returns the largest number of all tables, above 0; heads then share one colour scale. */
export function largest(planes) {
  const values = planes.flatMap(({ values: rows }) => rows.map((row) => Math.max(...row)));
  return Math.max(1e-9, ...values);
}
