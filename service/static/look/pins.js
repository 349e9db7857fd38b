// The pinned words: a token that attends, a token that it attends to, or both.

import { placeOf } from './attention.js';

/** Returns the row and column of the pinned tokens; null for a token that is not pinned. */
export function pinnedPlaces({ query, key }, { rows, columns }) {
  const place = (axis, token) => (token === null ? null : placeOf(axis, token));
  return { row: place(rows, query), column: place(columns, key) };
}

/**
 * Returns the change of the view that pins or unpins a word of the page.
 * @param {Word} word
 * @param {boolean} isNew Whether to pin the word.
 * @param {{view: Object, tables: Tables, gaze: Gaze}} shown The map.
 * @returns {Object|null} Null if neither the map nor the cross-attention has the word.
 */
export function pinChange(word, isNew, { view, tables, gaze, shape }) {
  const { rows, columns } = gaze.placesOf(word);
  if (rows.length + columns.length === 0) return otherKind(word, isNew, tables, gaze, shape);
  const tokens = {
    query: tables.rows.tokens[rows[0]] ?? null,
    key: tables.columns.tokens[columns[0]] ?? null,
  };
  if (!isNew) return unpinned(view, tokens);
  if (tokens.query === null || tokens.key === null) {
    return tokens.query === null ? { key: tokens.key } : { query: tokens.query };
  }
  // The word is on both sides of the map: the first pinned word looks at the second.
  const isSecond = view.query !== null && view.key === null;
  return isSecond ? { key: tokens.key } : { query: tokens.query, key: null };
}

function unpinned({ query, key }, tokens) {
  const change = {};
  if (query !== null && query === tokens.query) change.query = null;
  if (key !== null && key === tokens.key) change.key = null;
  return change;
}

/** Shows a word of the translation in the cross-attention, if the map is of the text alone. */
function otherKind(word, isNew, { written }, gaze, shape) {
  const index = gaze.writtenAt(word);
  if (!isNew || index === undefined || !('cross' in shape)) return null;
  const first = { kind: 'cross', layer: null, head: null };
  return { ...first, query: written.tokens[index], key: null };
}
