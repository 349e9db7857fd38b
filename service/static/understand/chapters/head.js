// The chapters of the story about one head: from query, key and value to their sum.

import { dot, softmax } from '../../common/matrix.js';
import { element, folded } from '../../common/dom.js';
import { speaker } from '../../common/strings.js';
import { percent, spoken } from '../../common/text.js';
import { story } from '../../strings/story.js';
import { bar, firstNumbers, folds, more, paragraphs, short, tokenTable, vectorRows } from '../figures.js';

const say = speaker(story);

const PARTS = 3; // Tokens whose parts of the sum are shown.

/** Words that say little to a reader, although heads look at them. */
const SMALL_WORDS = new Set(
  'a an the and or but so if as because that of to in on at for with from was were is are'.split(' '),
);

/** Returns the names and numbers that the texts of these chapters use. */
function known({ steps }) {
  const { rows, head_dim: size } = steps;
  const top = rows.reduce((a, b) => (b.weight > a.weight ? b : a));
  const [token, most] = [spoken(steps.query.token), spoken(top.token)];
  const names = rows.map((row) => row.token);
  const shares = rows.map((row) => row.weight);
  return { rows, size, top, token, most, names, shares, share: percent(top.weight) };
}

/** Shows the query, the key and the value of the token. */
export function roles(facts) {
  const { steps, layer, head } = facts;
  const { token, most } = known(facts);
  const { q, k, v } = steps.vectors;
  const place = { head: head + 1, layer: layer + 1, token, most };
  return [
    ...paragraphs(say('roles_text', { token })),
    vectorRows([[say('roles_x', { token }), steps.block.input]]),
    vectorRows([
      [say('roles_q'), q],
      [say('roles_k'), k[steps.query.index]],
      [say('roles_v'), v[steps.query.index]],
    ]),
    more(
      say('roles_tables'),
      layer === 0 ? say('roles_placeFirst', place) : say('roles_place', place),
      say('tokens_more'),
      say('figures'),
    ),
  ];
}

/** Shows the products of the query with all keys. */
export function scores(facts) {
  const { rows, size, top, token, most, names, shares } = known(facts);
  const { q, k } = facts.steps.vectors;
  const key = k[top.key];
  const products = [0, 1, 2].map((i) => `${short(q[i])} × ${short(key[i])}`).join(' + ');
  const score = short(top.score);
  return [
    ...paragraphs(
      say('scores_text', { token, most, size, score }),
      SMALL_WORDS.has(most.toLowerCase()) ? say('scores_idle', { most }) : '',
    ),
    element('p', { class: 'sum', text: say('scores_sum', { products, score }) }),
    tokenTable(
      say('scores_title'),
      names,
      [{ name: say('scores_column'), cells: rows.map((row) => short(row.score)) }],
      { most: top.key, shares },
    ),
  ];
}

/** Shows the scores divided by the root of the vectors' size. */
export function scale(facts) {
  const { rows, size, top, names, shares } = known(facts);
  const columns = [
    { name: say('scores_column'), cells: rows.map((row) => short(row.score)) },
    { name: say('scale_column', { size }), cells: rows.map((row) => short(row.scaled)) },
  ];
  return [
    ...paragraphs(rootText(facts), say('scale_why'), compareText(facts)),
    tokenTable(say('scale_title', { size }), names, columns, { most: top.key, shares }),
  ];
}

/** Explains the division of the scores by the root. */
function rootText({ steps: { head_dim: size } }) {
  return say('scale_text', { size, root: short(Math.sqrt(size)) });
}

/** Compares the largest share with and without the division. */
function compareText(facts) {
  const { rows, top, most, share } = known(facts);
  const raw = percent(softmax(rows.map((row) => row.score))[top.key]);
  return say('scale_compare', { most, share, raw });
}

/** Shows which scores a mask would hide. */
export function mask(facts) {
  const { rows, size, token, names, shares } = known(facts);
  const { token: place } = facts;
  const isHidden = (row) => row.key > place;
  const columns = [
    { name: say('scale_column', { size }), cells: rows.map((row) => short(row.scaled)) },
    {
      name: say('mask_column'),
      cells: rows.map((row) => (isHidden(row) ? '−∞' : short(row.scaled))),
    },
  ];
  return [
    ...paragraphs(say('mask_text'), say('mask_here', { token })),
    tokenTable(say('mask_title'), names, columns, { most: place, shares }),
  ];
}

/** Shows the shares that softmax makes of the scores. */
export function weights(facts) {
  const { rows, size, top, token, most, names, shares, share } = known(facts);
  const total = percent(rows.reduce((sum, { weight }) => sum + weight, 0));
  const columns = [
    { name: say('scale_column', { size }), cells: rows.map((row) => short(row.scaled)) },
    { name: say('softmax_column'), cells: rows.map((row) => bar(row.weight)), class: 'share' },
  ];
  return [
    ...paragraphs(say('softmax_text', { token, most, share, size })),
    tokenTable(say('softmax_title'), names, columns, {
      ...{ most: top.key, shares },
      rest: (hidden) => ['', percent(hidden.reduce((sum, row) => sum + shares[row], 0))],
      total: [say('softmax_total'), '', total],
    }),
    folds(
      folded(say('softmax_root', { size }), ...paragraphs(rootText(facts), compareText(facts))),
      more(say('softmax_more')),
    ),
  ];
}

/** Shows the values of all tokens, multiplied by their shares. */
export function values(facts) {
  const { rows, top, most, names, shares, share } = known(facts);
  const columns = [
    { name: say('softmax_column'), cells: rows.map((row) => percent(row.weight)) },
    {
      name: say('values_column'),
      cells: rows.map((row) => element('span', { class: 'numbers' }, ...firstNumbers(row.value))),
    },
  ];
  return [
    ...paragraphs(say('values_text', { most, share })),
    tokenTable(say('values_title'), names, columns, { most: top.key, shares }),
  ];
}

/** Shows the largest parts of the sum, the rest, and the sum. */
export function sum(facts) {
  const { rows, size, token, most } = known(facts);
  const { z } = facts.steps;
  const sorted = [...rows].sort((a, b) => b.weight - a.weight);
  const [parts, others] = [sorted.slice(0, PARTS), sorted.slice(PARTS)];
  const rest = parts[0].value.map((_, i) => dot(others.map(({ value }) => value[i]), others.map(() => 1)));
  /** @type {Array<[string, number[]]>} */
  const named = parts.map((row, i) => [
    `${i ? '+ ' : ''}${percent(row.weight)} × v “${spoken(row.token)}”`,
    row.value,
  ]);
  return [
    ...paragraphs(say('sum_text', { token, most })),
    vectorRows([...named, [say('sum_rest', { count: others.length }), rest], [say('sum_z'), z]], size),
  ];
}
