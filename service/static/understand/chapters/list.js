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
 * @property {boolean} [isMain] Whether it is among the main steps.
 * @property {function(Object): Array<Node>} content
 */

/** @type {Chapter[]} */
const ALL = [
  { name: 'tokens', group: 'input', content: input.tokens },
  { name: 'position', group: 'input', content: input.position },
  { name: 'roles', group: 'head', isMain: true, content: head.roles },
  { name: 'scores', group: 'head', isMain: true, content: head.scores },
  { name: 'scale', group: 'head', content: head.scale },
  { name: 'mask', group: 'head', content: head.mask },
  { name: 'softmax', group: 'head', isMain: true, content: head.weights },
  { name: 'values', group: 'head', content: head.values },
  { name: 'sum', group: 'head', isMain: true, content: head.sum },
  { name: 'heads', group: 'layer', isMain: true, content: layer.heads },
  { name: 'concat', group: 'layer', content: layer.concat },
  { name: 'norm', group: 'layer', content: layer.norm },
  { name: 'forward', group: 'layer', content: layer.forward },
  { name: 'encoder', group: 'model', content: model.encoder },
  { name: 'decoder', group: 'model', content: model.decoder },
  { name: 'words', group: 'model', isMain: true, content: model.words },
  { name: 'pool', group: 'model', isMain: true, content: model.pool },
];

/** Returns the reading time of the main chapters, or of all, in minutes. A test computes it too. */
export const minutesOf = (isWhole) => (isWhole ? 10 : 4);

/** Reports whether a view has all chapters: by choice, or because it shows a step beyond the main ones. */
export function isWhole({ whole, step }) {
  const shown = ALL.find(({ name }) => name === step);
  return whole || (shown !== undefined && !shown.isMain);
}

/** Returns the main chapters, or all; without those for which there are no numbers. */
export const chaptersOf = (facts, isWhole) =>
  ALL.filter(({ name, isMain }) => (isWhole || isMain) && (name !== 'pool' || facts.pool));

/** Returns the title of a chapter. */
export function titleOf({ name }, facts) {
  const written = facts.pool ? spoken(facts.pool.written) : '';
  const values = { size: facts.steps.head_dim, layers: facts.encoder.length, written };
  return say(`${name}_title`, values);
}
