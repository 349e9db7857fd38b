// From a view to the body of POST /attention, and from its reply to tables of numbers.

import { tokenName } from './text.js';

const DECIMALS = 5;

/**
 * What is looked into: one sequence, and the translation that goes with it.
 * @typedef {{text: string, source: string, target: string, wanted: string|null}} Translated
 */

/**
 * Or a text as a model embeds it, alone.
 * @typedef {{task: 'embed', text: string, model: string|null}} Embedded
 * @typedef {Translated|Embedded} Subject
 */

/** Whether a layer of a view stands for several, so that no single head can be shown. */
export const isMerged = (layer) => layer === 'all' || layer === 'rollout';

function subjectBody({ task, text, model, source, target, wanted }) {
  if (task === 'embed') return { task, text, ...(model === null ? {} : { model }) };
  return { text, source, target, ...(wanted === null ? {} : { target_text: wanted }) };
}

/** The selection of layers and heads; one request serves all heads of a layer and their mean. */
function selection({ layer, head }, isNarrow) {
  if (layer === 'rollout') return { reduce: 'rollout' };
  if (layer === 'all') return { layers: 'all', reduce: 'mean_layers_heads' };
  if (!isNarrow) return { layers: [layer], reduce: 'none' };
  if (head === 'mean') return { layers: [layer], reduce: 'mean_heads' };
  return { layers: [layer], heads: [head], reduce: 'none' };
}

/**
 * The body that asks for what a view shows.
 * @param {Object} view With its layer as a number, `all` or `rollout`.
 * @param {Subject} subject
 * @param {boolean} isNarrow Ask for the chosen head alone, where all are too much for the server.
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

/** The body that asks for the computation of one token. */
export function stepsBody(view, subject) {
  const { kind, layer, head, query, vectors } = view;
  const include = vectors ? ['output', 'vectors'] : ['output'];
  return { ...subjectBody(subject), kind, layer, head, query, include };
}

/** The body that asks how a text is split, and for hardly a number. */
export function outlineBody({ text, source, target }) {
  return { text, source, target, split: true, kinds: ['cross'], level: 'word', top_k: 1 };
}

/**
 * One item as tables.
 * @typedef {Object} Tables
 * @property {Axis} rows What attends.
 * @property {Axis} columns What is attended to.
 * @property {Array<{name: number|string, values: number[][]}>} planes By head, or one that is merged.
 * @property {boolean} isCausal Whether nothing right of the diagonal is attended to.
 */

/**
 * Reads an item of a reply that asked for one kind.
 * @returns {Tables}
 */
export function readTables(item) {
  const [attention] = item.attentions;
  const { kind, heads, data } = attention;
  const names = Array.isArray(heads) ? heads : [heads];
  const source = axis(item.source.tokens, item.source.ids);
  const written = axis(item.target?.tokens ?? [], item.target?.ids ?? []);
  const read = axis(item.target?.input_tokens ?? [], item.target?.ids ?? []);
  const [rows, columns] = {
    encoder: [source, source],
    cross: [written, source],
    decoder: [read, read],
  }[kind];
  const planes = names.map((name, index) => ({ name, values: data[0][index] }));
  return { rows, columns, planes, isCausal: kind === 'decoder', inputs: read, kind };
}

/**
 * The labels along one side, and the first token of each.
 * @typedef {{labels: string[], tokens: number[]}} Axis
 */
function axis(tokens, ids) {
  let next = 0;
  const first = ids.map((id) => {
    const token = next;
    next += Array.isArray(id) ? id.length : 1;
    return token;
  });
  return { labels: tokens.map(tokenName), tokens: first };
}

/** The place along an axis of a token; -1 where there is none. */
export function placeOf({ tokens }, token) {
  return tokens.findLastIndex((first) => first <= token);
}

/** The table of one head, or the mean of all. */
export function chosenPlane(tables, head) {
  const { planes } = tables;
  const chosen = planes.find(({ name }) => name === head);
  if (chosen || planes.length === 1) return (chosen ?? planes[0]).values;
  return planes[0].values.map((row, r) => row.map((_, c) => meanOf(planes, r, c)));
}

function meanOf(planes, row, column) {
  return planes.reduce((sum, { values }) => sum + values[row][column], 0) / planes.length;
}

/** The largest number of all tables, above 0, so that heads can be compared by colour. */
export function largest(planes) {
  const values = planes.flatMap(({ values: rows }) => rows.map((row) => Math.max(...row)));
  return Math.max(1e-9, ...values);
}

/** The head that gives most weight to one cell. */
export function strongestHead({ planes }, row, column) {
  const best = planes.reduce((a, b) => (b.values[row][column] > a.values[row][column] ? b : a));
  return typeof best.name === 'number' ? best.name : 0;
}
