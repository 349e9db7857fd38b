// The chapters of the story about one head: from query, key and value to their sum.

import { short, topOf } from '../../common/computation.js';
import { element, folded } from '../../common/dom.js';
import { softmax } from '../../common/matrix.js';
import { speaker } from '../../common/strings.js';
import { percent, spoken } from '../../common/text.js';
import { story } from '../../strings/story.js';
import { computation, more, paragraphs, vectorRows } from '../figures.js';

const say = speaker(story);

/** Words that say little to a reader, although heads look at them. */
const SMALL_WORDS = new Set(
  'a an the and or but so if as because that of to in on at for with from was were is are'.split(' '),
);

/** Returns the names and numbers that the texts of these chapters use. */
function known({ steps }) {
  const top = topOf(steps);
  const [token, most] = [spoken(steps.query.token), spoken(top.token)];
  return { size: steps.head_dim, top, token, most, share: percent(top.weight) };
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
      say('roles_self'),
      say('roles_tables'),
      say(layer === 0 ? 'roles_placeFirst' : 'roles_place', place),
      say('figures'),
    ),
  ];
}

/** Shows the products of the query with all keys, and one of them number by number. */
export function scores(facts) {
  const { size, top, token, most } = known(facts);
  const { q, k } = facts.steps.vectors;
  const key = k[top.key];
  const score = short(top.score);
  const terms = [0, 1, 2].map((i) => `${short(q[i])} × ${short(key[i])}`).join(' + ');
  const products = q.map((value, i) => value * key[i]);
  return [
    ...paragraphs(
      say('scores_text', { token, most, size, score }),
      SMALL_WORDS.has(most.toLowerCase()) ? say('scores_idle', { most }) : '',
    ),
    vectorRows([[say('scores_q', { token }), q], [say('scores_k', { most }), key]]),
    vectorRows([[say('scores_each'), products]]),
    element('p', { class: 'sum', text: say('scores_sum', { terms, score }) }),
    computation(say('scores_title'), facts.steps, ['product']),
  ];
}

/** Shows the scores divided by the root of the vectors' size. */
export function scale(facts) {
  const { size } = known(facts);
  return [
    ...paragraphs(rootText(facts), say('scale_why'), compareText(facts)),
    computation(say('scale_title', { size }), facts.steps, ['product', 'root']),
  ];
}

/** Explains the division of the scores by the root. */
function rootText({ steps: { head_dim: size } }) {
  return say('scale_text', { size, root: short(Math.sqrt(size)) });
}

/** Compares the largest share with and without the division. */
function compareText(facts) {
  const { top, most, share } = known(facts);
  const { rows } = facts.steps;
  const raw = percent(softmax(rows.map((row) => row.score))[rows.indexOf(top)]);
  return say('scale_compare', { most, share, raw });
}

/** Shows the shares that softmax makes of the scores. */
export function weights(facts) {
  const { size, token, most, share } = known(facts);
  return [
    ...paragraphs(say('softmax_text', { token, most, share, size })),
    computation(say('softmax_title'), facts.steps, ['root', 'distance', 'softmax']),
    folded(say('softmax_root', { size }), ...paragraphs(rootText(facts), compareText(facts))),
    more(say('softmax_more')),
  ];
}

/** Shows the values of all tokens, faded by their shares. */
export function values(facts) {
  const { most, share } = known(facts);
  return [
    ...paragraphs(say('values_text', { most, share })),
    computation(say('values_title'), facts.steps, ['v', 'softmax', 'faded', 'weighted']),
  ];
}

/** Shows the whole computation; the values fall together into their sum. */
export function sum(facts) {
  const { token, most } = known(facts);
  const table = computation(say('sum_title'), facts.steps, ['product', 'root', 'softmax', 'faded', 'weighted']);
  table.classList.add('falling');
  return [...paragraphs(say('sum_text', { token, most })), table];
}
