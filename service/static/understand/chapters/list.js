// The chapters of the story in their order.

import { speaker } from '../../common/strings.js';
import { spoken } from '../../common/text.js';
import { story } from '../../strings/story.js';
import * as head from './head.js';
import * as input from './input.js';
import * as layer from './layer.js';
import * as model from './model.js';

const say = speaker(story);

/**
 * A chapter: its name in links, the group that it belongs to, and its content.
 * @typedef {Object} Chapter
 * @property {string} name
 * @property {string} group
 * @property {function(Object, function(number): void): Array<Node>} content
 */

/** @type {Chapter[]} */
const ALL = [
  { name: 'tokens', group: 'input', content: input.tokens },
  { name: 'position', group: 'input', content: input.position },
  { name: 'roles', group: 'head', content: head.roles },
  { name: 'scores', group: 'head', content: head.scores },
  { name: 'scale', group: 'head', content: head.scale },
  { name: 'mask', group: 'head', content: head.mask },
  { name: 'softmax', group: 'head', content: head.weights },
  { name: 'values', group: 'head', content: head.values },
  { name: 'sum', group: 'head', content: head.sum },
  { name: 'heads', group: 'layer', content: layer.heads },
  { name: 'concat', group: 'layer', content: layer.concat },
  { name: 'norm', group: 'layer', content: layer.norm },
  { name: 'forward', group: 'layer', content: layer.forward },
  { name: 'encoder', group: 'model', content: model.encoder },
  { name: 'decoder', group: 'model', content: model.decoder },
  { name: 'words', group: 'model', content: model.words },
  { name: 'pool', group: 'model', content: model.pool },
];

/** Returns the chapters for which there are numbers. */
export const chaptersOf = (facts) => ALL.filter(({ name }) => name !== 'pool' || facts.pool);

/** Returns the title of a chapter. */
export function titleOf({ name }, facts) {
  const written = facts.pool ? spoken(facts.pool.written) : '';
  const values = { size: facts.steps.head_dim, layers: facts.encoder.length, written };
  return say(`${name}_title`, values);
}
